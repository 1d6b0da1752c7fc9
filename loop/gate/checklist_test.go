package gate

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

func TestUncheckedItems(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"- [ ] a\n- [x] b\n- [X] c\n* [ ] d\n+ [ ] e": "1 4 5",
		"1. [ ] a\n2) [ ] b\n12345678901. [ ] no":     "1 2",
		"  - [ ] nested\n\t\t- [ ] deeper":            "1 2",
		"> - [ ] quoted\n>> 1. [ ] twice":             "1 2",
		"- - [ ] list in list":                        "1",
		"[ ] bare line":                               "1",
		"### [ ] heading":                             "1",
		"| [ ] | cell |\n| a | [ ] b |\na | [ ]":      "1 2 3",
		"- [] no blank\n- [](link)\n- [ ](link)":      "1",
		"- [\t] tab\n- [\u00a0] nbsp\n- [  ] two":     "1 2 3",
		"- [ ]\n- []":                                 "1 2",
		"- [ ]glued\n[ ]: reference":                  "1",
		"- [-] cancelled\n- [~] half":                 "",
		"use `[ ]` or [ ] in a sentence":              "",
		"-[ ] not a list item":                        "",
		"```\n- [ ] a\n```\n- [ ] b":                  "4",
		"~~~md\n- [ ] a\n~~~\n- [ ] b":                "4",
		"~~~\n```\n- [ ] a\n~~~\n- [ ] b":             "5",
		"````\n```\n- [ ] a\n```\n````\n- [ ] b":      "6",
		"```\n- [ ] a\n``` not the end\n- [ ] b\n```": "",
		"- ```sh\n  - [ ] a\n  ```\n- [ ] b":          "4",
		"``` inline ``` text\n- [ ] a":                "2",
		"``\n- [ ] a\n``":                             "2",
		"- [ ] a\n```\n- [ ] hidden? no\nmore":        "1 3",
		"- [ ] a\r\n- [x] b\r\n- [ ] c\r\n":           "1 3",
		"\ufeff- [ ] a":                               "1",
		"<!-- - [ ] a -->\n<!--\n- [ ] b\n-->":        "3",
		"":                                            "",
		"---\n***\n- \n1.\n#\n>\n|":                   "",
	} {
		var got []string
		for _, it := range uncheckedItems(text) {
			got = append(got, fmt.Sprint(it.Line))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: lines %v, want %s", text, got, want)
		}
	}
}

// Checking every box of a generated text leaves nothing; the number of boxes
// left open is the number counted.
func TestUncheckedItemsCounts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		want := 0
		for range rapid.IntRange(0, 30).Draw(t, "blocks") {
			switch mark := rapid.SampledFrom([]string{"- ", "* ", "+ ", "7. ", "  - ", "> - ", "prose", "fence"}).Draw(t, "block"); mark {
			case "prose":
				b.WriteString("some [ ] words and [links](x)\n\n")
			case "fence":
				f := rapid.SampledFrom([]string{"```", "~~~", "`````"}).Draw(t, "fence")
				b.WriteString(f + "go\n- [ ] example\n" + f + "\n")
			default:
				open := rapid.Bool().Draw(t, "open")
				box := "[x]"
				if open {
					want++
					box = "[ ]"
				}
				b.WriteString(mark + box + " do it\n")
			}
		}
		if got := len(uncheckedItems(b.String())); got != want {
			t.Fatalf("%d items, want %d in\n%s", got, want, b.String())
		}
	})
}

func TestChecklists(t *testing.T) {
	t.Parallel()
	outside := repo(t, map[string]string{"done.md": "- [x] a\n"})
	root := repo(t, map[string]string{
		"todo.md":        "# T\n- [ ] one\n- [x] two\n",
		"docs/a.md":      "- [x] a\n",
		"docs/b/c.md":    "- [ ] c\n* [ ] d\n",
		"docs/dir.md/":   "",
		"outside.md":     "-> " + outside + "/done.md",
		"odd\nname.md":   "- [ ] x\n",
		"docs/link.md":   "-> a.md",
		"docs/broken.md": "-> gone",
	})
	must(t, syscall.Mkfifo(filepath.Join(root, "fifo.md"), 0o644))
	res, err := checklists(root, []string{"todo.md", "*.md", "docs/**/*.md", "", "no/such.md", "../x.md", "outside.md", "bad[.md"})
	must(t, err)
	if res.OK || res.Status() != "remaining" {
		t.Errorf("got %+v", res)
	}
	equal(t, "checklist-remaining.md", string(res.RemainingMarkdown()),
		"todo.md:2:- [ ] one\n\"odd\\nname.md\":1:- [ ] x\ndocs/b/c.md:1:- [ ] c\ndocs/b/c.md:2:* [ ] d\n")
	missing := string(res.MissingMarkdown())
	for _, line := range []string{"fifo.md (not_a_file)", "outside.md (path_outside_repo)", "docs/broken.md", "docs/dir.md (not_a_file)",
		"no/such.md", "../x.md (path_outside_repo)", "bad[.md (bad_pattern: syntax error in pattern)"} {
		if !strings.Contains("\n"+missing, "\n"+line+"\n") {
			t.Errorf("%q is not in checklist-missing.md:\n%s", line, missing)
		}
	}
	equal(t, "remaining", res.Remaining, 4+7)
	equal(t, "files", res.Files, 5)
	m := decode(t, res.StatusJSON(noon))
	keys(t, m, "ok remaining generated_at files missing")
	equal(t, "generated_at", m["generated_at"].(string), "2026-11-21T12:00:00Z")

	res, err = checklists(root, []string{"docs/a.md"})
	must(t, err)
	equal(t, "status", res.Status(), "ok")
	equal(t, "remaining file", string(res.RemainingMarkdown())+string(res.MissingMarkdown()), "")
	equal(t, "status file", string(res.StatusJSON(noon)), `{
  "ok": true,
  "remaining": 0,
  "generated_at": "2026-11-21T12:00:00Z",
  "files": 1
}
`)
	if res, err := checklists(root, nil); err != nil || !res.OK {
		t.Errorf("no checklists: %+v %v", res, err)
	}
	if _, err := checklists(filepath.Join(root, "gone"), []string{"x"}); err == nil {
		t.Error("a repository that is not there is no error")
	}
}

func TestChecklistsAreBounded(t *testing.T) {
	t.Parallel()
	root := repo(t, map[string]string{"many.md": strings.Repeat("- [ ] x\n", maxListed+10)})
	must(t, os.Truncate(filepath.Join(root, "many.md"), int64(8*(maxListed+10))))
	big, err := os.Create(filepath.Join(root, "big.md"))
	must(t, err)
	must(t, big.Truncate(maxMarkdown+1))
	must(t, big.Close())
	res, err := checklists(root, []string{"many.md", "big.md"})
	must(t, err)
	equal(t, "remaining", res.Remaining, maxListed+11)
	equal(t, "items", len(res.Items), maxListed)
	if !strings.HasSuffix(string(res.RemainingMarkdown()), "... and 10 more\n") {
		t.Error("the rest is not told")
	}
	equal(t, "reason", res.Missing[0].Reason, ReasonTooLarge)
}

func checklists(root string, patterns []string) (r ChecklistResult, err error) {
	err = r.Look(root, patterns)
	return r, err
}

// A box of the spec that is neither ticked nor open in the checklist is open.
func TestKept(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		spec, list string
		want       int
	}{
		{"- [ ] a\n- [ ] b\n", "- [x] a\n- [ ] b\n", 0}, // Look counts b
		{"- [ ] a\n- [ ] b\n", "- [x] a, in a.go\n* [X]  b\n", 0},
		{"- [ ] a\n- [ ] b\n", "- [x] a\n", 1},
		{"- [ ] a\n- [ ] a\n", "- [x] a\n", 1},
		{"- [ ] a\n- [ ] ab\n", "- [x] ab\n", 1},
		{"- [ ] a\n- [ ] ab\n", "- [x] abc\n- [x] a\n", 0},
		{"- [ ] a\n- [ ] a\n- [ ] a\n", "- [x] a 1\n- [x] a 2\n- [x] b\n", 1},
		{"- [x] a\n", "", 0},
		{"```\n- [ ] a\n```\n", "", 0},
		{"| [ ] | a |\n", "| [x] | a |\n", 0},
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{"spec.md": c.spec, "list.md": c.list} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var res ChecklistResult
		if err := res.Kept(dir, "list.md", "spec.md"); err != nil || res.Remaining != c.want || len(res.Items) != c.want {
			t.Errorf("%q, %q: %v %+v", c.spec, c.list, err, res)
		}
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "list.md"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	res := ChecklistResult{OK: true}
	if err := res.Kept(dir, "list.md", "spec.md"); err != nil || res.OK || res.Remaining != 1 || len(res.Missing) != 1 {
		t.Errorf("without a spec: %v %+v", err, res)
	}
}
