package main

import (
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/superloop/superloop/loop/stats"
)

func TestStatsCost(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		usd     float64
		unknown int
		want    string
	}{
		{0, 0, "$0.0000"}, {0.00001, 0, "<$0.0001"}, {0.12344, 0, "$0.1234"}, {0.12346, 0, "$0.1235"}, {0.0152325, 0, "$0.0152"},
		{1.2, 0, "$1.20"}, {1.199, 0, "$1.20"}, {1.199, 3, ">= $1.19 (3 runs unknown)"}, {1.2, 1, ">= $1.20 (1 run unknown)"},
		{0.00001, 2, "> $0 (2 runs unknown)"}, {0, 2, ">= $0.0000 (2 runs unknown)"}, {12345.678, 0, "$12345.68"}, {0.29, 1, ">= $0.2900 (1 run unknown)"},
	} {
		if got := statsCost(stats.Sum[float64]{Known: &tt.usd, Unknown: tt.unknown}); got != tt.want {
			t.Errorf("%v with %d unknown is %q, want %q", tt.usd, tt.unknown, got, tt.want)
		}
	}
	if got := statsCost(stats.Sum[float64]{Unknown: 2}); got != "unknown" {
		t.Errorf("nothing known is %q", got)
	}
	if got := statsCost(stats.Sum[float64]{}); got != "-" {
		t.Errorf("nothing used is %q", got)
	}
}

// TestStatsAtLeast: what is shown as the least is never more than what is known.
func TestStatsAtLeast(t *testing.T) {
	t.Parallel()
	// Without a library of properties: what this test binary imports is initialised by each
	// of the thousands of processes that it is started as.
	random := rand.New(rand.NewPCG(20, 26))
	numbers := []int64{0, 999, 1000, 1001, 99_999, 999_499, 999_500, 999_999, 1e6, 1e9 - 1, 1e9, math.MaxInt64}
	for range 5000 {
		numbers = append(numbers, random.Int64()>>random.IntN(63))
	}
	for _, n := range numbers {
		usd := float64(n%1e15) / 1e9
		text := statsCost(stats.Sum[float64]{Known: &usd, Unknown: 1})
		shown, _, _ := strings.Cut(strings.TrimPrefix(text, ">= $"), " ")
		if v, err := strconv.ParseFloat(shown, 64); err == nil && (v > usd+1e-9 || v < usd-0.0101) {
			t.Fatalf("%v is shown as %s", usd, text)
		}
		short := statsTokens(stats.Sum[int64]{Known: &n, Unknown: 1})
		digits := strings.TrimRight(strings.TrimPrefix(short, ">= "), "kMG")
		v, err := strconv.ParseFloat(digits, 64)
		if err != nil {
			t.Fatal(err)
		}
		v *= map[string]float64{"k": 1e3, "M": 1e6, "G": 1e9}[short[len(short)-1:]] + map[bool]float64{true: 1}[short[len(short)-1] <= '9']
		if v > float64(n)*(1+1e-12) || v < float64(n)*0.98 {
			t.Fatalf("%d is shown as %s", n, short)
		}
	}
}
