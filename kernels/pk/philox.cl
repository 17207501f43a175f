/* Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC11).
 * One item: the four words of one counter.
 */
DEVFN u32 pk_high(u32 a, u32 b) { return (u32)((u64)a * b >> 32); }

DEVFN void pk_philox(u32 c[4], u32 k0, u32 k1) {
    for (i32 round = 0; round < 10; round++) {
        const u32 high0 = pk_high(0xD2511F53u, c[0]), low0 = 0xD2511F53u * c[0];
        const u32 high1 = pk_high(0xCD9E8D57u, c[2]), low1 = 0xCD9E8D57u * c[2];
        c[0] = high1 ^ c[1] ^ k0;
        c[1] = low1;
        c[2] = high0 ^ c[3] ^ k1;
        c[3] = low0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

KERNEL philox(PK_IDS GLOBAL u32 *y, i64 oy, i64 key, i64 offset, i64 n) {
    const i64 item = GID(0);
    if (item * 4 >= n) return;
    const u64 counter = (u64)offset + (u64)item;
    u32 c[4] = {(u32)counter, (u32)(counter >> 32), 0, 0};
    pk_philox(c, (u32)key, (u32)((u64)key >> 32));
    GLOBAL u32 *to = y + oy + item * 4;
    UNROLL
    for (i32 j = 0; j < 4; j++)
        if (item * 4 + j < n) to[j] = c[j];
}
