/* The scalar functions of one complex type T with parts R: pk.py prints this once per dtype in
 * use, after those of R, with P the suffix of R's functions. Special values are those of C11,
 * annex G.
 */
DEVFN T pk_complex_P(R re, R im) {
    T z;
    z.re = re;
    z.im = im;
    return z;
}
DEVFN R pk_real_T(T a) { return a.re; }
DEVFN R pk_imag_T(T a) { return a.im; }
DEVFN T pk_neg_T(T a) { return pk_complex_P(-a.re, -a.im); }
DEVFN T pk_conj_T(T a) { return pk_complex_P(a.re, -a.im); }
DEVFN T pk_add_T(T a, T b) { return pk_complex_P(a.re + b.re, a.im + b.im); }
DEVFN T pk_sub_T(T a, T b) { return pk_complex_P(a.re - b.re, a.im - b.im); }
DEVFN T pk_mul_T(T a, T b) {
    return pk_complex_P(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re);
}
DEVFN b8 pk_eq_T(T a, T b) { return a.re == b.re && a.im == b.im; }
DEVFN R pk_abs_T(T a) { return hypot(a.re, a.im); }
DEVFN b8 pk_infinite_T(R a) { return a == (R)PK_INF || a == -(R)PK_INF; }
DEVFN b8 pk_finite_T(R a) { return a - a == 0; }

/* Scaled by the divisor's exponent so that its square neither overflows nor vanishes. */
DEVFN T pk_div_T(T a, T b) {
    R c = b.re, d = b.im, p = a.re, q = a.im;
    const R size = fmax(fabs(c), fabs(d));
    i32 k = 0;
    if (size > 0 && pk_finite_T(size)) {
        k = ilogb(size);
        c = ldexp(c, -k);
        d = ldexp(d, -k);
    }
    const R square = c * c + d * d;
    R x = ldexp((p * c + q * d) / square, -k), y = ldexp((q * c - p * d) / square, -k);
    if (x == x || y == y) return pk_complex_P(x, y);
    if (square == 0 && (p == p || q == q)) {
        x = copysign((R)PK_INF, c) * p;
        y = copysign((R)PK_INF, c) * q;
    } else if ((pk_infinite_T(p) || pk_infinite_T(q)) && pk_finite_T(c) && pk_finite_T(d)) {
        p = copysign(pk_infinite_T(p) ? (R)1 : (R)0, p);
        q = copysign(pk_infinite_T(q) ? (R)1 : (R)0, q);
        x = (R)PK_INF * (p * c + q * d);
        y = (R)PK_INF * (q * c - p * d);
    } else if (pk_infinite_T(size) && pk_finite_T(p) && pk_finite_T(q)) {
        c = copysign(pk_infinite_T(c) ? (R)1 : (R)0, c);
        d = copysign(pk_infinite_T(d) ? (R)1 : (R)0, d);
        x = (R)0 * (p * c + q * d);
        y = (R)0 * (q * c - p * d);
    }
    return pk_complex_P(x, y);
}
DEVFN T pk_recip_T(T a) { return pk_div_T(pk_complex_P(1, 0), a); }

DEVFN T pk_exp_T(T a) {
    if (a.im == 0) return pk_complex_P(exp(a.re), a.im);
    if (pk_infinite_T(a.re)) {
        const R size = a.re > 0 ? (R)PK_INF : (R)0;
        if (!pk_finite_T(a.im)) return pk_complex_P(size, a.re > 0 ? (R)PK_NAN : (R)0);
        return pk_complex_P(size * cos(a.im), size * sin(a.im));
    }
    /* twice the root, which overflows later */
    const R root = exp((R)0.5 * a.re);
    return pk_complex_P(root * cos(a.im) * root, root * sin(a.im) * root);
}

/* Near the unit circle the logarithm of the size is small, and log1p of its excess keeps it. */
DEVFN T pk_log_T(T a) {
    const R x = fmax(fabs(a.re), fabs(a.im)), y = fmin(fabs(a.re), fabs(a.im));
    const R size = x > (R)0.5 && x < 2 && y < 2 ? (R)0.5 * log1p((x - 1) * (x + 1) + y * y)
                                                : log(hypot(a.re, a.im));
    return pk_complex_P(size, atan2(a.im, a.re));
}

DEVFN T pk_sqrt_T(T a) {
    if (a.re == 0 && a.im == 0) return pk_complex_P(0, a.im);
    if (pk_infinite_T(a.im)) return pk_complex_P(PK_INF, a.im);
    if (a.re != a.re) return pk_complex_P(PK_NAN, PK_NAN);
    if (pk_infinite_T(a.re)) {
        const R other = a.im != a.im ? a.im : (R)0;
        if (a.re < 0) return pk_complex_P(other, copysign((R)PK_INF, a.im));
        return pk_complex_P(a.re, other == other ? copysign((R)0, a.im) : other);
    }
    const R re = (R)0.25 * a.re, im = (R)0.25 * a.im; /* their size cannot overflow */
    const R root = sqrt((R)0.5 * (fabs(re) + hypot(re, im)));
    const R other = im / (2 * root);
    if (a.re >= 0) return pk_complex_P(2 * root, 2 * other);
    return pk_complex_P(2 * fabs(other), copysign(2 * root, a.im));
}

DEVFN T pk_sin_T(T a) {
    if (a.re == 0) return pk_complex_P(a.re, sinh(a.im));
    if (a.im == 0) return pk_complex_P(sin(a.re), a.im);
    return pk_complex_P(sin(a.re) * cosh(a.im), cos(a.re) * sinh(a.im));
}
DEVFN T pk_cos_T(T a) {
    if (a.re == 0) return pk_complex_P(cosh(a.im), -a.re * copysign((R)1, a.im));
    if (a.im == 0) return pk_complex_P(cos(a.re), -a.im * copysign((R)1, sin(a.re)));
    return pk_complex_P(cos(a.re) * cosh(a.im), -sin(a.re) * sinh(a.im));
}
DEVFN T pk_pow_T(T a, T b) {
    if (b.im == 0 && b.re == 2) return pk_mul_T(a, a);
    if (b.im == 0 && b.re == 0) return pk_complex_P(1, 0);
    return pk_exp_T(pk_mul_T(b, pk_log_T(a)));
}
