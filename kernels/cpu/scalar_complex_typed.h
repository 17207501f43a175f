/* Complex functions for one dtype: T its type, R its parts', S and P their suffixes, F(name) the
 * libm spelling. */
#define FN2(name, s) pk_##name##_##s
#define FN1(name, s) FN2(name, s)
#define FN(name) FN1(name, S)
#define PART(name) FN1(name, P)

static inline T PART(complex)(R re, R im) {
    R parts[2] = {re, im};
    T z;
    memcpy(&z, parts, sizeof z);
    return z;
}
static inline R FN(real)(T a) { return F(creal)(a); }
static inline R FN(imag)(T a) { return F(cimag)(a); }
static inline T FN(neg)(T a) { return PART(complex)(-FN(real)(a), -FN(imag)(a)); }
static inline T FN(conj)(T a) { return PART(complex)(FN(real)(a), -FN(imag)(a)); }
static inline T FN(add)(T a, T b) { return a + b; }
static inline T FN(sub)(T a, T b) { return a - b; }
static inline int FN(eq)(T a, T b) { return a == b; }
/* The plain formula: what vector units compute, here and in torch. */
static inline T FN(mul)(T a, T b) {
    R ar = FN(real)(a), ai = FN(imag)(a), br = FN(real)(b), bi = FN(imag)(b);
    return PART(complex)(ar * br - ai * bi, ar * bi + ai * br);
}
static inline T FN(div)(T a, T b) { return a / b; }
static inline T FN(recip)(T a) { return 1 / a; }
static inline R FN(abs)(T a) { return F(cabs)(a); }
static inline T FN(exp)(T a) { return F(cexp)(a); }
static inline T FN(log)(T a) { return F(clog)(a); }
static inline T FN(sqrt)(T a) { return F(csqrt)(a); }
static inline T FN(sin)(T a) { return F(csin)(a); }
static inline T FN(cos)(T a) { return F(ccos)(a); }
/* In double, because an error of the logarithm grows with the exponent. */
static inline T FN(pow)(T a, T b) {
    if (b == 2) return FN(mul)(a, a);
    return b == 0 ? 1 : (T)cpow(a, b);
}

#undef FN2
#undef FN1
#undef FN
#undef PART
#undef T
#undef R
#undef S
#undef P
#undef F
