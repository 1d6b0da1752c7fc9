package worktree

import (
	"strings"
	"testing"

	"github.com/superloop/superloop/internal/proc"
)

// White space that changes no program and no text is no work; an honest change is, however small.
func TestSignificant(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		file, a, b string
		same       bool
	}{
		{"a.go", "a := b+c\n", "\n\na  :=\tb + c  \n\n", true},
		{"a.go", "if x {\n\ty()\n}\n", "if x { y() }\r\n", true},
		{"a.md", "helloworld", "hello world", false},
		{"a.md", "hello world", "hello\n\tworld", true},
		{"a.md", "", "\n \t\n", true},
		{"a.md", "", "x", false},
		{"a.js", "x = 1", "x = 2", false},
		{"a.py", "if a:\n    b()\nc()\n", "if a:\n  b( )\n\n\nc()   \n", true},
		{"a.py", "if a:\n    b()\n    c()\n", "if a:\n    b()\nc()\n", false},
		{"a.py", "if a:\n  if b:\n    c()\n  d()\n", "if a:\n  if b:\n    c()\n    d()\n", false},
		{"ci.yaml", "a:\n  b: 1\n", "a:\n    b: 1\n", true},
		{"ci.yaml", "a:\n  b: 1\n", "a:\nb: 1\n", false},
		{"Makefile", "a:\n\tb\n", "a:\n        b\n", false},
		{"dir/x.py", "a\nb\n", "a b\n", false},
	} {
		if got := significant(c.file, []byte(c.a)) == significant(c.file, []byte(c.b)); got != c.same {
			t.Errorf("%s: %q and %q: the same is %v", c.file, c.a, c.b, got)
		}
	}
}

func TestBeyondSpace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change string // a shell command in the work tree
		want   bool
	}{
		"blanks and lines":       {`printf 'one  \n\n\ntwo\n' > a.txt`, false},
		"committed blanks":       {`printf 'one  \n\n\ntwo\n' > a.txt; git -c user.name=n -c user.email=e commit -qam blanks`, false},
		"an empty file":          {`touch new.txt`, false},
		"a file of blank lines":  {`printf '\n\n' > new.txt`, false},
		"a word":                 {`printf 'one\nthree\n' > a.txt`, true},
		"a new file":             {`echo x > new.txt`, true},
		"a file that is gone":    {`rm a.txt`, true},
		"an executable":          {`chmod +x a.txt`, true},
		"a link":                 {`ln -sf b.bin a.txt`, true},
		"a binary":               {`printf 'x\000 \n' > b.bin`, true},
		"a large file":           {`head -c 1100000 /dev/zero | tr '\0' ' ' > a.txt`, true},
		"a file git never knew":  {`printf 'dirty \n' > d.txt`, true},
		"a replaced object":      {`printf 'one  \n\n\ntwo\n' > a.txt; git replace $(git rev-parse HEAD:a.txt) $(echo lie | git hash-object -w --stdin)`, false},
		"blanks and a new word":  {`printf 'one\n\ntwo\n' > a.txt; echo x > z.txt`, true},
		"nothing but the commit": {`git -c user.name=n -c user.email=e commit -q --allow-empty -m again`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			b.put("a.txt", "one\ntwo\n")
			b.put("b.bin", "x\x00\n")
			b.commitAll("one")
			b.put("d.txt", "dirty\n")
			r := b.open()
			before := snap(t, r)
			if _, err := (proc.Tool{Dir: b.dir, Env: b.env}).Run(t.Context(), "sh", "-c", c.change); err != nil {
				t.Fatal(err)
			}
			after := snap(t, r)
			got, err := r.BeyondSpace(t.Context(), before, after, Diff(before, after))
			if err != nil || got != c.want {
				t.Errorf("%v, %v; changed %s", got, err, strings.Join(Diff(before, after), " "))
			}
		})
	}
}
