#include "textflag.h"

// What bytes are compared with, each in all of a vector.
DATA compared<>+0(SB)/1, $0x1b // ESC
DATA compared<>+1(SB)/1, $0x08 // backspace
DATA compared<>+2(SB)/1, $0x5b // [
DATA compared<>+3(SB)/1, $0xe0 // of a parameter these bits
DATA compared<>+4(SB)/1, $0x20 // are these
DATA compared<>+5(SB)/1, $0xc0 // of a final byte these
DATA compared<>+6(SB)/1, $0x40 // are these
DATA compared<>+7(SB)/1, $0x7f // but it is not this one
GLOBL compared<>(SB), RODATA|NOPTR, $8

// BITS gives a bit for each byte that is set in two vectors.
#define BITS(low, high, to, tmp) \
	VPMOVMSKB low, to \
	VPMOVMSKB high, tmp \
	SHLQ $32, tmp \
	ORQ tmp, to

// PACK writes those of eight bytes whose bit is among the lowest of R11.
#define PACK(at) \
	MOVBLZX R11, BX \
	SHRQ $8, R11 \
	VMOVQ at(SI), X4 \
	VMOVQ (R8)(BX*8), X5 \
	VPSHUFB X5, X4, X4 \
	VMOVQ X4, (DI) \
	POPCNTL BX, BX \
	ADDQ BX, DI

// func stripCSI(to, from *byte, blocks int, state *[2]uint64, packing *uint64) int
//
// Copies blocks of 64 bytes without the CSI sequences in them. Which bytes belong to one is
// found for all at once: a bit of E stands for an ESC, the next one (S) has to be a "[", and
// from the one after it (T) on run parameters (P), of which adding T to them finds the end,
// where a final byte has to be. The state says whether an ESC stands at the end of what was
// before, and whether parameters may go on. The result is -1 if there is a backspace or
// something that is no CSI sequence.
TEXT ·stripCSI(SB), NOSPLIT, $0-48
	MOVQ to+0(FP), DI
	MOVQ from+8(FP), SI
	MOVQ blocks+16(FP), CX
	MOVQ state+24(FP), AX
	MOVQ packing+32(FP), R8
	MOVQ 0(AX), R9
	MOVQ 8(AX), R10
	VPBROADCASTB compared<>+0(SB), Y8
	VPBROADCASTB compared<>+1(SB), Y9
	VPBROADCASTB compared<>+2(SB), Y10
	VPBROADCASTB compared<>+3(SB), Y11
	VPBROADCASTB compared<>+4(SB), Y12
	VPBROADCASTB compared<>+5(SB), Y13
	VPBROADCASTB compared<>+6(SB), Y14
	VPBROADCASTB compared<>+7(SB), Y15

block:
	VMOVDQU (SI), Y0
	VMOVDQU 32(SI), Y1
	VPCMPEQB Y0, Y9, Y2
	VPCMPEQB Y1, Y9, Y3
	VPOR Y2, Y3, Y2
	VPTEST Y2, Y2
	JNZ other
	VPCMPEQB Y0, Y8, Y2
	VPCMPEQB Y1, Y8, Y3
	BITS(Y2, Y3, AX, BX)          // E
	MOVQ AX, BX
	ORQ R9, BX
	ORQ R10, BX
	JNZ sequences
	VMOVDQU Y0, (DI)
	VMOVDQU Y1, 32(DI)
	ADDQ $64, DI
	JMP next

sequences:
	VPCMPEQB Y0, Y10, Y2
	VPCMPEQB Y1, Y10, Y3
	BITS(Y2, Y3, R11, BX)         // what is a "["
	LEAQ (R9)(AX*2), DX           // S
	MOVQ AX, R9
	SHRQ $63, R9
	NOTQ R11
	TESTQ R11, DX
	JNZ other
	VPAND Y0, Y11, Y2
	VPAND Y1, Y11, Y3
	VPCMPEQB Y2, Y12, Y2
	VPCMPEQB Y3, Y12, Y3
	BITS(Y2, Y3, R12, BX)         // P
	VPAND Y0, Y13, Y2
	VPAND Y1, Y13, Y3
	VPCMPEQB Y2, Y14, Y2
	VPCMPEQB Y3, Y14, Y3
	VPCMPEQB Y0, Y15, Y4
	VPCMPEQB Y1, Y15, Y5
	VPANDN Y2, Y4, Y2
	VPANDN Y3, Y5, Y3
	BITS(Y2, Y3, R13, BX)         // what can be a final byte
	LEAQ (R10)(DX*2), BX          // T
	MOVQ DX, R10
	SHRQ $63, R10
	MOVQ BX, R11
	ANDQ R12, R11                 // T that is a parameter
	ADDQ R12, R11
	ADCQ $0, R10                  // the parameters go on in the next block
	ORQ DX, AX                    // E and S
	MOVQ R12, DX
	NOTQ DX                       // what is no parameter
	ORQ R11, BX
	ANDQ DX, BX                   // the byte after the parameters
	NOTQ R11
	ANDQ R12, R11                 // the parameters of sequences
	NOTQ R13
	TESTQ R13, BX
	JNZ other
	ORQ BX, AX
	ORQ AX, R11
	NOTQ R11                      // what stays
	PACK(0)
	PACK(8)
	PACK(16)
	PACK(24)
	PACK(32)
	PACK(40)
	PACK(48)
	PACK(56)

next:
	ADDQ $64, SI
	DECQ CX
	JNZ block
	VZEROUPPER
	MOVQ state+24(FP), AX
	MOVQ R9, 0(AX)
	MOVQ R10, 8(AX)
	SUBQ to+0(FP), DI
	MOVQ DI, ret+40(FP)
	RET

other:
	VZEROUPPER
	MOVQ $-1, ret+40(FP)
	RET
