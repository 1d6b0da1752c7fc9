package price

import (
	"bufio"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/roles/agent"
)

func tokens(in, read, write, out int64) agent.Usage {
	return agent.Usage{Input: &in, CacheRead: &read, CacheWrite: &write, Output: &out}
}

func table(t testing.TB) *Table {
	t.Helper()
	tab, err := Embedded()
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// TestAsTheSource compares with what the source's own program computes for
// every model of the kept providers. Where that has a price and this package has
// none, there must be a reason.
func TestAsTheSource(t *testing.T) {
	t.Parallel()
	f, err := os.Open("testdata/golden.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tab := table(t)
	rated := ratedModels(tab)
	var same, without, unpriced int
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		c := strings.Split(lines.Text(), "\t")
		if len(c) != 10 {
			t.Fatalf("a line of %d columns: %q", len(c), lines.Text())
		}
		at, err := time.Parse(time.RFC3339, c[2])
		if err != nil {
			t.Fatal(err)
		}
		var n [4]int64
		for i := range n {
			if n[i], err = strconv.ParseInt(c[3+i], 10, 64); err != nil {
				t.Fatal(err)
			}
		}
		got, ok := tab.Cost(c[0], c[1], tokens(n[0], n[1], n[2], n[3]), at)
		keys := c[8]
		if !ok {
			switch {
			case c[7] == "unknown":
				without++
			case notPriced(keys, n), !rated[c[0]+" "+c[9]]:
				unpriced++
			default:
				t.Errorf("%s: no cost, the source says %s", lines.Text(), c[7])
			}
			continue
		}
		if c[7] == "unknown" || notPriced(keys, n) {
			t.Errorf("%s: $%g of nothing", lines.Text(), got)
			continue
		}
		want, err := strconv.ParseFloat(c[7], 64)
		if err != nil {
			t.Fatal(err)
		}
		// Prices are kept to twelve decimals and the source computes in binary.
		if math.Abs(got-want) > 1e-11*want {
			t.Errorf("%s: $%.15g, the source says $%.15g", lines.Text(), got, want)
		}
		same++
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d the same, %d without a price in both, %d priced by the source alone", same, without, unpriced)
	if same < 900 || without < 10 || unpriced > 500 {
		t.Error("the golden file no longer tests much")
	}
}

// notPriced reports whether tokens of a kind were counted for which the source
// takes the price of another kind, or 0. keys are those of the prices it has.
func notPriced(keys string, n [4]int64) bool {
	for i, key := range []string{"i", "r", "w", "o"} {
		if n[i] > 0 && !strings.Contains(keys, key) {
			return true
		}
	}
	return false
}

// ratedModels are the models with a price, as "provider model", those of whom a
// provider falls back to among its own.
func ratedModels(tab *Table) map[string]bool {
	out := map[string]bool{}
	for _, p := range tab.providers {
		for _, of := range tab.providers {
			if of != p && !slices.Contains(p.Fallback, of.ID) {
				continue
			}
			for _, m := range of.Models {
				if len(m.Rates) > 0 {
					out[p.ID+" "+m.ID] = true
				}
			}
		}
	}
	return out
}
