"""A kernel in PTX that several tests run."""

SAXPY = """\
.version 8.0
.target sm_90
.address_size 64

.visible .entry saxpy(
    .param .f32 a,
    .param .u64 x,
    .param .u64 y,
    .param .u32 saxpy_param_3
)
{
    .reg .pred %p;
    .reg .b32 %i, %t, %n;
    .reg .f32 %a, %x, %y;
    .reg .b64 %px, %py, %o;

    ld.param.f32 %a, [a];
    ld.param.u64 %px, [x];
    ld.param.u64 %py, [y];
    ld.param.u32 %n, [saxpy_param_3];
    mov.u32 %i, %ctaid.x;
    mov.u32 %t, %ntid.x;
    mad.lo.u32 %i, %i, %t, 0;
    mov.u32 %t, %tid.x;
    add.u32 %i, %i, %t;
    setp.ge.u32 %p, %i, %n;
    @%p bra DONE;
    mul.wide.u32 %o, %i, 4;
    add.u64 %px, %px, %o;
    add.u64 %py, %py, %o;
    ld.global.f32 %x, [%px];  // line 31
    ld.global.f32 %y, [%py];
    fma.rn.f32 %y, %a, %x, %y;
    st.global.f32 [%py], %y;
DONE:
    ret;
}
"""
