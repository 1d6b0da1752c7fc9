package steering

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/superloop/superloop/internal/durable"
)

// states gives the state of each place of a Survey, by its path below home.
func (w *world) states(change func(*Home)) (Survey, map[string]State) {
	s := w.surroundings(change).Survey()
	states := map[string]State{}
	for _, p := range s.Places {
		if rel, err := filepath.Rel(w.home, p.Path); err == nil {
			states[rel] = p.State
		}
	}
	return s, states
}

func TestSurvey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.furnish()
	w.link(".gitconfig", w.repo+"/gitconfig")
	w.write("gitconfig", "work", w.repo)
	w.link(".vimrc", ".vimrc")
	w.write(".config/nvim/init.lua", "good")
	s, states := w.states(own)
	for path, want := range map[string]State{
		".bashrc": ReadOnly, ".npmrc": "", ".zshrc": Kept, ".local/bin": ReadOnly, ".gitconfig": Work, ".vimrc": Exposed, ".config/nvim": ReadOnly, ".own": ReadOnly, ".later": Kept,
		".claude": Given, ".local/share/pipx": ReadOnly, "lib/node_modules": ReadOnly,
	} {
		if got := states[path]; got != want && !(want == "" && got == Kept) { // npm may be installed here
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
	for list, want := range map[*[]string]string{&s.Files: "dotfiles/bashrc", &s.Links: ".bashrc", &s.Free: ".zshrc"} {
		if !slices.Contains(*list, filepath.Join(w.home, want)) {
			t.Errorf("%s is not in %q", want, *list)
		}
	}
	for _, path := range slices.Concat(s.Files, s.Free, s.Links) {
		if under(path, w.repo) {
			t.Errorf("%s lies in the repository", path)
		}
	}
	// What is opened is neither held nor kept free; of a directory, a part can be.
	s, states = w.states(func(h *Home) { h.Allow = []string{"bash", "~/.zshrc", "~/.config/nvim/init.lua", "path"} })
	if states[".bashrc"] != Open || states[".zshrc"] != "" || states[".zshenv"] != Kept || slices.Contains(s.Files, w.home+"/dotfiles/bashrc") || states[".local/bin"] == ReadOnly ||
		!slices.Contains(s.Writable, w.home+"/.config/nvim/init.lua") {
		t.Errorf("%v %q", states, s.Writable)
	}
}

// A repository inside of something that is held is writable; one that contains
// the home directory gets nothing into it.
func TestRepositoryAtOddPlaces(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write(".config/nvim/init.lua", "work")
	s, states := w.states(func(h *Home) { h.Work = []string{w.home + "/.config/nvim"} })
	if states[".config/nvim"] != Work || slices.Contains(s.Files, w.home+"/.config/nvim") {
		t.Errorf("%v", states)
	}
	w.write(".vim/pack/mine/x.vim", "work")
	if s, _ = w.states(func(h *Home) { h.Work = []string{w.home + "/.vim/pack/mine"} }); !slices.Contains(s.Files, w.home+"/.vim") || !slices.Contains(s.Writable, w.home+"/.vim/pack/mine") {
		t.Errorf("%q %q", s.Files, s.Writable)
	}
	w.write(".bashrc", "good")
	s, states = w.states(func(h *Home) { h.Work = []string{w.home} })
	if len(s.Free) > 0 || len(s.Dirs) > 0 || states[".bashrc"] != ReadOnly || states[".zshrc"] != Exposed {
		t.Errorf("%q %v", s.Free, states)
	}
	// Without a home directory there is nothing in it.
	if s, _ := w.states(func(h *Home) { h.Env = []string{"PATH=/bin", "HOME="} }); len(s.Free)+len(s.Links) > 0 {
		t.Errorf("%+v", s)
	}
	for _, home := range []string{"/", "/missing", "relative"} {
		if s, _ := w.states(func(h *Home) { h.Env = []string{"PATH=/bin", "HOME=" + home} }); len(s.Free) > 0 || slices.Contains(s.Files, "/") {
			t.Errorf("%s: %+v", home, s)
		}
	}
}

// Two supervisors have one home directory: the links stay for the second one. A
// killed one leaves them, and the next one removes them.
func TestKeepers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.picture()
	first, second := NewKeeper(w.surroundings(nil), durable.OS()), NewKeeper(w.surroundings(nil), durable.OS())
	if p := first.Around(); !slices.Contains(p.Links, w.home+"/.zshrc") {
		t.Fatalf("%q", p.Links)
	}
	if p := second.Around(); !slices.Contains(p.Links, w.home+"/.zshrc") {
		t.Fatalf("%q", p.Links)
	}
	w.write("kept", "by the user")
	if err := os.Remove(w.home + "/.zshenv"); err != nil {
		t.Fatal(err)
	}
	w.write(".zshenv", "by the user")
	first.Close()
	if to, err := os.Readlink(w.home + "/.zshrc"); err != nil || to != Free {
		t.Error(to, err)
	}
	_ = second.lock.Close() // it is killed
	third := NewKeeper(w.surroundings(func(h *Home) { h.Allow = []string{"zsh"} }), durable.OS())
	if p := third.Around(); slices.Contains(p.Links, w.home+"/.zshrc") {
		t.Errorf("%q", p.Links)
	}
	third.Close()
	for _, name := range []string{"kept", ".zshenv"} {
		if err := os.Remove(filepath.Join(w.home, name)); err != nil {
			t.Error(err)
		}
	}
	if after := w.picture(); after != before {
		t.Errorf("left behind:\n%s\nbefore:\n%s", after, before)
	}
}

// A supervisor of another home directory, whose PATH leads here, leaves the links alone: it does not hold the lock.
func TestKeepersOfOtherHomes(t *testing.T) {
	t.Parallel()
	here, there := newWorld(t), newWorld(t)
	first := NewKeeper(here.surroundings(nil), durable.OS())
	defer first.Close()
	free := ""
	for _, link := range first.Around().Links {
		if to, err := os.Readlink(link); err == nil && to == Free {
			free = link
		}
	}
	if free == "" {
		t.Fatal("no name is kept free")
	}
	second := NewKeeper(there.surroundings(func(h *Home) {
		h.Env = append(slices.Clone(h.Env), "PATH="+filepath.Join(filepath.Dir(free), "bin")+":"+lookup(h.Env, "PATH"))
	}), durable.OS())
	second.Around()
	second.Close()
	if to, err := os.Readlink(free); err != nil || to != Free {
		t.Errorf("%s is gone: %q %v", free, to, err)
	}
}
