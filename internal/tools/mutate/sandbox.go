package main

// insideArg, as the first argument, says that this process is PID 1 of a mutant's
// namespaces.
const insideArg = "mutate-inside"

// order is what runs in the namespaces.
type order struct {
	Dir, Tmp string // where it starts; its os.TempDir, which must be there and is gone afterwards
	Binary   string // empty: only try whether everything holds
	Args     []string
	User     bool // in a user namespace, too
}

// ended is what became of it.
type ended struct {
	Trouble string // why it was not started
	OK      bool   // it ended with exit status 0
}

// tail keeps the end of what is written.
type tail struct{ text []byte }

const mostTail = 16 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	if over := len(t.text) - mostTail; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(p), nil
}
