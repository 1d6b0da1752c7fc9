// Command skips reads what `go test -json` writes, prints what fails and a line for each package, then the reason of
// each skipped test. It fails when more tests skip than are allowed: go run .ci/skips.go KIND ALLOWED <events
//
// A skip whose reason names a variable SUPERLOOP_... does not count: another step of .ci/run sets it.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// event is one line of `go test -json`.
type event struct{ Action, Package, Test, Output string }

var (
	place  = regexp.MustCompile(`^\s*[\w.-]+\.go:\d+: `)
	number = regexp.MustCompile(`\d{4,}(-\d+)*`) // of a process or a namespace: another one in each reason
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("usage: go run .ci/skips.go KIND ALLOWED")
	}
	allowed, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	said := map[[2]string][]string{} // the lines of each test that runs
	skipped := map[string][]string{} // the tests of each reason
	count := 0
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) == 0 && err != nil {
			break
		}
		var e event
		if json.Unmarshal(line, &e) != nil { // what go itself says
			os.Stdout.Write(line)
			continue
		}
		key := [2]string{e.Package, e.Test}
		switch {
		case e.Action == "build-output", e.Action == "output" && e.Test == "":
			if out := strings.TrimSpace(e.Output); out != "PASS" && !strings.Contains(out, "[no test files]") {
				fmt.Print(e.Output)
			}
		case e.Action == "output":
			said[key] = append(said[key], e.Output)
		case e.Action == "fail" && e.Test != "":
			fmt.Print(strings.Join(said[key], ""))
		case e.Action == "fail": // whatever was still running may be why
			for k, lines := range said {
				if k[0] == e.Package {
					fmt.Print(strings.Join(lines, ""))
					delete(said, k)
				}
			}
		case e.Action == "skip" && e.Test != "":
			if why := reason(said[key]); !strings.Contains(why, "SUPERLOOP_") {
				skipped[why] = append(skipped[why], e.Test)
				count++
			}
		}
		if e.Action == "pass" || e.Action == "fail" || e.Action == "skip" {
			delete(said, key)
		}
	}
	fmt.Printf("skipped as %s: %d, allowed: %d\n", args[0], count, allowed)
	for _, why := range slices.Sorted(maps.Keys(skipped)) {
		fmt.Printf("  %s: %s\n", why, strings.Join(skipped[why], ", "))
	}
	if count > allowed {
		return fmt.Errorf("%d tests skip as %s, %d may: install what the lines above name, or make the test run here; "+
			"only a test that cannot run on such a machine raises the number in the table of .ci/run", count, args[0], allowed)
	}
	return nil
}

// reason returns the last line that a test said before it skipped, without the place in its source.
func reason(lines []string) string {
	for _, l := range slices.Backward(lines) {
		if t := strings.TrimSpace(l); t != "" && !strings.HasPrefix(t, "--- ") && !strings.HasPrefix(t, "=== ") {
			return number.ReplaceAllString(place.ReplaceAllString(t, ""), "N")
		}
	}
	return "no reason is given"
}
