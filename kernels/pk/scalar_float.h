/* The scalar functions of one floating type: pk.py prints this once per dtype in use. */
DEVFN T pk_exp_T(T a) { return exp(a); }
DEVFN T pk_log_T(T a) { return log(a); }
DEVFN T pk_sqrt_T(T a) { return sqrt(a); }
DEVFN T pk_sin_T(T a) { return sin(a); }
DEVFN T pk_cos_T(T a) { return cos(a); }
DEVFN T pk_floor_T(T a) { return floor(a); }
DEVFN T pk_trunc_T(T a) { return trunc(a); }
DEVFN T pk_round_T(T a) { return rint(a); }
DEVFN T pk_abs_T(T a) { return fabs(a); }
DEVFN T pk_log1p_T(T a) { return log1p(a); }
DEVFN T pk_expm1_T(T a) { return expm1(a); }
DEVFN T pk_tanh_T(T a) { return tanh(a); }
DEVFN T pk_tan_T(T a) { return tan(a); }
DEVFN T pk_asin_T(T a) { return asin(a); }
DEVFN T pk_acos_T(T a) { return acos(a); }
DEVFN T pk_atan_T(T a) { return atan(a); }
DEVFN T pk_sinh_T(T a) { return sinh(a); }
DEVFN T pk_cosh_T(T a) { return cosh(a); }
DEVFN T pk_asinh_T(T a) { return asinh(a); }
DEVFN T pk_acosh_T(T a) { return acosh(a); }
DEVFN T pk_atanh_T(T a) { return atanh(a); }
DEVFN T pk_exp2_T(T a) { return exp2(a); }
DEVFN T pk_log2_T(T a) { return log2(a); }
DEVFN T pk_log10_T(T a) { return log10(a); }
DEVFN T pk_erf_T(T a) { return erf(a); }
DEVFN T pk_erfc_T(T a) { return erfc(a); }
DEVFN T pk_ceil_T(T a) { return ceil(a); }
DEVFN T pk_lgamma_T(T a) { return lgamma(a); }
DEVFN T pk_atan2_T(T a, T b) { return atan2(a, b); }
DEVFN T pk_fmod_T(T a, T b) { return fmod(a, b); }
DEVFN T pk_copysign_T(T a, T b) { return copysign(a, b); }
DEVFN T pk_hypot_T(T a, T b) { return hypot(a, b); }
DEVFN T pk_nextafter_T(T a, T b) { return nextafter(a, b); }
DEVFN T pk_pow_T(T a, T b) { return pow(a, b); }

/* Not fmax and fmin: those drop a NaN. */
DEVFN T pk_max_T(T a, T b) { return a > b || a != a ? a : b; }
DEVFN T pk_min_T(T a, T b) { return a < b || a != a ? a : b; }

/* Floored: the remainder has the divisor's sign. */
DEVFN T pk_mod_T(T a, T b) {
    const T r = fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
/* a less its remainder divides by b exactly up to rounding, hence rint. */
DEVFN T pk_idiv_T(T a, T b) {
    if (b == 0) return a / b;
    const T r = fmod(a, b);
    const T below = r != 0 && (r < 0) != (b < 0) ? (T)1 : (T)0;
    const T whole = rint((a - r) / b - below);
    return whole != 0 ? whole : copysign((T)0, a / b);
}
