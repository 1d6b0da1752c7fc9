#include "go_asm.h"
#include "textflag.h"

DATA fold<>+0(SB)/4, $const_fold32
GLOBL fold<>(SB), RODATA|NOPTR, $4
DATA low<>+0(SB)/4, $31
GLOBL low<>(SB), RODATA|NOPTR, $4
DATA muls<>+0(SB)/4, $const_hashMul
DATA muls<>+4(SB)/4, $const_hashMul2
GLOBL muls<>(SB), RODATA|NOPTR, $8
DATA kind<>+0(SB)/8, $0x8000000000000000
GLOBL kind<>(SB), RODATA|NOPTR, $8

// func probeAVX2(text *byte, i, groups int, l *lanes, table *uint32, packing *uint64, to *place) int
//
// Eight places a turn: their grams are loaded by two reads of 16 bytes for each half,
// hashed, looked up, and the places of those in the table are written one after the
// other.
TEXT ·probeAVX2(SB), NOSPLIT, $0-64
	MOVQ text+0(FP), SI
	MOVQ i+8(FP), R9
	MOVQ groups+16(FP), CX
	MOVQ l+24(FP), AX
	MOVQ table+32(FP), DI
	MOVQ packing+40(FP), R8
	MOVQ to+48(FP), DX
	VMOVDQU lanes_near(AX), Y14
	VMOVDQU lanes_far(AX), Y15
	VMOVD R9, X0
	VPBROADCASTD X0, Y0
	VPADDD lanes_at(AX), Y0, Y0
	VPBROADCASTD lanes_step(AX), Y10
	VPBROADCASTD lanes_mul(AX), Y11
	VPBROADCASTD fold<>(SB), Y12
	VPBROADCASTD low<>(SB), Y13
	MOVQ lanes_half(AX), R11
	MOVQ lanes_second(AX), R12
	LEAQ (R11)(R12*1), R13
	MOVL lanes_step(AX), R10
	ADDQ R9, SI
	MOVQ DX, R9

probe:
	VMOVDQU (SI), X2
	VINSERTI128 $1, (SI)(R11*1), Y2, Y2
	VMOVDQU (SI)(R12*1), X3
	VINSERTI128 $1, (SI)(R13*1), Y3, Y3
	VPSHUFB Y14, Y2, Y2
	VPSHUFB Y15, Y3, Y3
	VPOR Y3, Y2, Y2
	VPOR Y12, Y2, Y2
	VPMULLD Y11, Y2, Y2
	VPSRLD $(32-const_tableBits), Y2, Y2
	VPSRLD $5, Y2, Y3
	VPCMPEQD Y1, Y1, Y1
	VPGATHERDD Y1, (DI)(Y3*4), Y4
	VPAND Y13, Y2, Y2
	VPSRLVD Y2, Y4, Y4
	VPSLLD $31, Y4, Y4
	VMOVMSKPS Y4, AX
	VPMOVZXBD (R8)(AX*8), Y5
	VPERMD Y0, Y5, Y6
	VMOVDQU Y6, (DX)
	POPCNTL AX, BX
	LEAQ (DX)(BX*4), DX
	VPADDD Y10, Y0, Y0
	ADDQ R10, SI
	DECQ CX
	JNZ probe
	VZEROUPPER
	SUBQ R9, DX
	SHRQ $2, DX
	MOVQ DX, ret+56(FP)
	RET

// func siftAVX2(text *byte, in *place, groups int, l *lanes, table *uint32, packing *uint64, to *place) int
//
// Four places a turn, each in both ways.
TEXT ·siftAVX2(SB), NOSPLIT, $0-64
	MOVQ text+0(FP), SI
	MOVQ in+8(FP), R9
	MOVQ groups+16(FP), CX
	MOVQ l+24(FP), AX
	MOVQ table+32(FP), DI
	MOVQ packing+40(FP), R8
	MOVQ to+48(FP), DX
	VMOVDQU lanes_mask0(AX), Y7
	VMOVDQU lanes_mask1(AX), Y8
	VPBROADCASTD fold<>(SB), Y12
	VPBROADCASTD low<>(SB), Y13
	VPBROADCASTQ muls<>(SB), Y11
	VPBROADCASTQ kind<>(SB), Y10
	SUBQ $const_before, SI
	MOVQ DX, R13

sift:
	MOVL (R9), AX
	MOVL 4(R9), BX
	MOVL 8(R9), R10
	MOVL 12(R9), R11
	VMOVQ (SI)(AX*1), X0
	VMOVHPS (SI)(BX*1), X0, X0
	VMOVQ (SI)(R10*1), X1
	VMOVHPS (SI)(R11*1), X1, X1
	VINSERTI128 $1, X1, Y0, Y0
	VPOR Y12, Y0, Y0
	VPAND Y7, Y0, Y2
	VPAND Y8, Y0, Y3
	VPMULLD Y11, Y2, Y2
	VPMULLD Y11, Y3, Y3
	VPSHUFD $0xB1, Y2, Y4
	VPSHUFD $0xB1, Y3, Y5
	VPADDD Y4, Y2, Y2
	VPADDD Y5, Y3, Y3
	VPBLENDD $0xAA, Y3, Y2, Y2
	VPSRLD $(32-const_contextBits-5), Y2, Y9 // which is the second bit
	VPAND Y13, Y9, Y9
	VPSRLD $(32-const_contextBits), Y2, Y2
	VPSRLD $5, Y2, Y3
	VPCMPEQD Y1, Y1, Y1
	VPGATHERDD Y1, (DI)(Y3*4), Y4
	VPAND Y13, Y2, Y2
	VPSRLVD Y9, Y4, Y9
	VPSRLVD Y2, Y4, Y4
	VPAND Y9, Y4, Y4
	VPSLLD $31, Y4, Y4
	VMOVMSKPS Y4, AX
	VPMOVZXDQ (R9), Y5
	VPSLLQ $32, Y5, Y6
	VPOR Y5, Y6, Y6
	VPOR Y10, Y6, Y6
	VPMOVZXBD (R8)(AX*8), Y5
	VPERMD Y6, Y5, Y6
	VMOVDQU Y6, (DX)
	POPCNTL AX, BX
	LEAQ (DX)(BX*4), DX
	ADDQ $16, R9
	DECQ CX
	JNZ sift
	VZEROUPPER
	SUBQ R13, DX
	SHRQ $2, DX
	MOVQ DX, ret+56(FP)
	RET
