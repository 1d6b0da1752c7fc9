//go:build linux

package steering

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// attacks try to change what steers other programs. Each does harm when nothing
// protects the home directory: the control.
var attacks = []string{
	`echo evil >> ~/.bashrc`,
	`echo evil > ~/.bashrc`,
	`rm -f ~/.bashrc; echo evil > ~/.bashrc`,
	`echo evil > ~/x; mv ~/x ~/.bashrc`,
	`mv ~/.bashrc ~/y; echo evil > ~/.bashrc`,
	`ln ~/dotfiles/bashrc ~/hard && echo evil > ~/hard`,
	`ln -sfn ~/x ~/.bashrc`,
	`echo evil > ~/dotfiles/bashrc`,
	`mv ~/dotfiles ~/d; mkdir ~/dotfiles; echo evil > ~/dotfiles/bashrc`,
	`echo evil > ~/.npmrc`,
	`mkdir -p ~/.npmrc`,
	`ln -s /tmp ~/.npmrc`,
	`echo evil > ~/z; mv -T ~/z ~/.npmrc`,
	`mkfifo ~/.npmrc`,
	`echo evil > ~/.gitconfig`,
	`git config --global core.pager evil`,
	`mkdir -p ~/.config/git && echo evil > ~/.config/git/config`,
	`mv ~/.config ~/c; mkdir -p ~/.config/fish; echo evil > ~/.config/fish/config.fish`,
	`rm -rf ~/.config; mkdir -p ~/.config/fish; echo evil > ~/.config/fish/config.fish`,
	`mkdir -p ~/.config/fish; echo evil > ~/.config/fish/config.fish`,
	`mkdir -p ~/.config/systemd/user; echo evil > ~/.config/systemd/user/x.service`,
	`mkdir -p ~/.config/autostart; echo evil > ~/.config/autostart/x.desktop`,
	`mkdir -p ~/.config/superloop/recovery; echo evil > ~/.config/superloop/recovery/x.yaml`,
	`mkdir -p ~/.local/bin; echo evil > ~/.local/bin/npm; chmod +x ~/.local/bin/npm`,
	`echo evil > ~/.local/bin/tool`,
	`rm -rf ~/.local/bin; mkdir ~/.local/bin; echo evil > ~/.local/bin/tool`,
	`mv ~/.local ~/l; mkdir -p ~/.local/bin; echo evil > ~/.local/bin/npm`,
	`mkdir -p ~/go/bin; echo evil > ~/go/bin/gopls`,
	`mv ~/go ~/g; mkdir -p ~/go/bin; echo evil > ~/go/bin/gopls`,
	`echo evil > ~/.local/share/pipx/venvs/linked/bin/linked`,
	`echo evil > ~/.local/share/pipx/venvs/linked/lib.py`,
	`echo evil > ~/lib/node_modules/cli/main.js`,
	`mkdir -p ~/.ssh; echo evil > ~/.ssh/authorized_keys`,
	`echo evil > ~/.ssh/rc`,
	`echo evil > ~/.own/settings; rm -rf ~/.own; mkdir ~/.own; echo evil > ~/.own/settings`,
	`mkdir -p ~/.later; echo evil > ~/.later`,
	`echo evil > ~/.profile; echo evil > ~/.zshenv; echo evil > ~/.vimrc`,
	`mkdir -p ~/.config; cp -r ~/.config ~/copy; rm -rf ~/.config; mv ~/copy ~/.config; echo evil > ~/.config/git`,
	`mkdir -p ~/.config; cd ~/.config && rm -rf git; echo evil > git`,
	`exec 9< ~/.local/bin && echo evil > /proc/self/fd/9/byfd`,
	`echo evil > "/proc/self/root$HOME/.npmrc"`,
	`rm -rf ~/.local/lib; mkdir -p ~/.local/lib/python3/site-packages; echo evil > ~/.local/lib/python3/site-packages/usercustomize.py`,
}

// nested has every capability in namespaces of the agent's own.
var nested = []string{
	`unshare -Urm bash -c 'umount -l ~/.bashrc ~/.npmrc ~/.local/bin; echo evil > ~/.npmrc; echo evil > ~/.local/bin/npm; echo evil > ~/.bashrc'`,
	`unshare -Urm bash -c 'mount --bind /tmp ~/.local/bin; mount -o remount,rw,bind ~/.local/bin; echo evil > ~/.local/bin/npm'`,
	`umount ~/.npmrc; umount -l ~/.bashrc; mount -o remount,rw,bind ~/.local/bin; echo evil > ~/.local/bin/npm; echo evil > ~/.npmrc`,
}

// steering is the part of a picture that agents must not change: all but what
// they may make beside it.
func (w *world) steering() string {
	var b strings.Builder
	h := w.surroundings(own)
	for _, path := range []string{"~/.bashrc", "~/dotfiles/bashrc", "~/.npmrc", "~/.gitconfig", "~/.config/git", "~/.config/fish", "~/.config/systemd", "~/.config/autostart",
		"~/.config/superloop", "~/.local/bin", "~/.local/lib", "~/go/bin", "~/.local/share/pipx", "~/lib/node_modules", "~/.ssh", "~/.own", "~/.later", "~/.profile", "~/.zshenv", "~/.vimrc"} {
		at := expand(path, w.home, h.Env)[0]
		if to, err := os.Readlink(at); err == nil && to == Free {
			continue // as good as missing
		}
		err := filepath.WalkDir(at, func(p string, e os.DirEntry, err error) error {
			if err != nil {
				return nil //nolint:nilerr // a missing place is a part of the picture, too
			}
			var text []byte
			if e.Type().IsRegular() { // an attack may have made a FIFO
				text, _ = os.ReadFile(p)
			}
			to, _ := os.Readlink(p)
			_, err = fmt.Fprintln(&b, p, e.Type(), to, string(text))
			return err
		})
		if err != nil {
			w.t.Fatal(err)
		}
	}
	return b.String()
}

func TestAgentsCannotSteerOtherPrograms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.furnish()
	before, whole := w.steering(), w.picture()
	w.protect(own)
	for _, script := range append(attacks[:len(attacks):len(attacks)], nested...) {
		out := w.agent("(\n" + script + "\n); rm -rf ~/x ~/y ~/z ~/c ~/d ~/l ~/g ~/hard ~/copy")
		if after := w.steering(); after != before {
			t.Fatalf("%s\nit said %s\nbefore:\n%s\nafter:\n%s", script, out, before, after)
		}
	}
	if got := w.agent(`echo state > ~/.claude/new && echo x > ~/.claude.json.tmp && mv ~/.claude.json.tmp ~/.claude.json && mkdir -p ~/.cache/a ~/.config/opencode ~/.local/share/opencode ~/.local/state/x ~/go/pkg/mod ~/.npm/_cacache && echo y > ~/.new && mv ~/.new ~/.newer && ln ~/.newer ~/work/repo/hard && cat ~/.ssh/config ~/.bashrc`); got != "goodgood" {
		t.Errorf("agents cannot work: %s", got)
	}
	w.agent(`rm -rf ~/.claude/new ~/.claude.json ~/.cache/a ~/.config/opencode ~/.local/share/opencode ~/.local/state ~/go/pkg ~/.npm ~/.newer ~/.config/copy; rmdir ~/.config`)
	w.keeper.Close()
	if after := w.picture(); after != whole {
		t.Errorf("something is left behind:\n%s\nbefore:\n%s", after, whole)
	}
}

// The control: each attack does harm where nothing protects the home directory.
func TestWithoutProtectionTheyDoHarm(t *testing.T) {
	t.Parallel()
	for _, script := range attacks {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.furnish()
			before := w.steering()
			cmd := exec.Command("/bin/bash", "-c", script)
			cmd.Dir, cmd.Env = w.repo, w.env
			out, _ := cmd.CombinedOutput()
			if w.steering() == before {
				t.Errorf("it does no harm: %s", out)
			}
		})
	}
}

// Sockets of services are hidden, and what agents make in their place is their
// own.
func TestSocketsAreHidden(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// The path of a socket has at most 107 bytes.
	run, err := os.MkdirTemp("/tmp", "run")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(run) })
	for _, name := range []string{"bus", "agent.1", "docker.sock", "tmux"} {
		l, err := net.Listen("unix", filepath.Join(run, name))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
	if err := os.Mkdir(run+"/user", 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", run+"/user/bus")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w.env = append(w.env, "XDG_RUNTIME_DIR="+run+"/user", "SSH_AUTH_SOCK="+run+"/agent.1", "DOCKER_HOST=unix://"+run+"/docker.sock", "TMUX="+run+"/tmux,1,0")
	w.protect(func(h *Home) { h.Allow = []string{"docker"} })
	look := `cd ` + run + `; for s in user/bus agent.1 docker.sock tmux; do [ -S $s ] && echo $s; done; ls -A user; echo x > user/own && echo made`
	if got := w.agent(look); got != "docker.sock\nmade\n" {
		t.Errorf("agents see %q", got)
	}
	if _, err := os.Lstat(run + "/user/own"); err == nil {
		t.Error("what an agent made in a directory of sockets can be seen outside")
	}
	hidden := strings.Join(Sockets(w.env, nil), "\n")
	for _, name := range []string{"/user", "/agent.1", "/docker.sock", "/tmux"} {
		if !strings.Contains(hidden, run+name) {
			t.Errorf("the command of a recovery sees %s: %s", name, hidden)
		}
	}
}

// Files come, go and are replaced while a loop runs: each start of an agent finds
// them protected, and the supervisor is not held up.
func TestPlacesChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.furnish()
	w.protect(own)
	for _, change := range []string{
		`rm ~/.npmrc; echo good > ~/.npmrc`,
		`echo better > ~/n; mv ~/n ~/.npmrc`,
		`rm ~/.npmrc`,
		`rm -r ~/.local/bin`,
		`rm -f ~/.local/bin; mkdir -p ~/.local/bin; echo good > ~/.local/bin/tool`,
		`rm ~/.bashrc; echo plain > ~/.bashrc`,
		`rm ~/.config/git; mkdir -p ~/.config/git; echo good > ~/.config/git/config`,
		`mv ~/.config ~/old; mkdir ~/.config`,
	} {
		cmd := exec.Command("/bin/bash", "-ec", change)
		cmd.Dir, cmd.Env = w.repo, w.env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v %s", change, err, out)
		}
		before := w.steering()
		for _, script := range []string{
			`echo evil > ~/.npmrc; rm -f ~/.npmrc; echo evil > ~/.npmrc`,
			`mkdir -p ~/.local/bin; echo evil > ~/.local/bin/npm; rm -rf ~/.local/bin; mkdir -p ~/.local/bin && echo evil > ~/.local/bin/npm`,
			`echo evil > ~/.bashrc; mv ~/.bashrc ~/b; mkdir -p ~/.config/git; echo evil > ~/.config/git/config`,
		} {
			out := w.agent(script)
			if after := w.steering(); after != before {
				t.Fatalf("%s; %s\nit said %s\nbefore:\n%s\nafter:\n%s", change, script, out, before, after)
			}
		}
	}
}
