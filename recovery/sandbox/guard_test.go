//go:build linux

package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// escapes try to change, from inside, what a protected agent may not change. Each
// is a script in the repository. With alone, it also does harm when nothing
// protects anything: the control.
var escapes = []struct {
	name, script string
	alone        bool
}{
	{"write", `echo x > .superloop/config.json`, true},
	{"append", `echo x >> .superloop/config.json`, true},
	{"new file", `echo x > .superloop/new`, true},
	{"remove", `rm -rf .superloop`, true},
	{"touch", `touch -d 2001-01-01 .superloop/config.json`, true},
	{"mode", `chmod 777 .superloop .superloop/config.json`, true},
	{"rename", `mv .superloop s && mkdir .superloop && echo x > .superloop/config.json`, true},
	{"replace by a link", `cp -r .superloop s; rm -rf .superloop; ln -s s .superloop`, true},
	{"rename over it", `cp -r .superloop s; mv -T s .superloop`, false},
	{"rename the file over", `echo x > y; mv y .superloop/config.json`, true},
	{"hard link", `ln .superloop/config.json same && echo x > same`, true},
	{"symbolic link", `ln -s .superloop way; echo x > way/new`, true},
	{"dot dot", `cd sub && echo x > ../.superloop/new`, true},
	{"own root", `echo x > "/proc/self/root$PWD/.superloop/root"`, true},
	{"own cwd", `echo x > /proc/self/cwd/.superloop/cwd`, true},
	{"directory descriptor", `exec 9< .superloop && echo x > /proc/self/fd/9/byfd`, true},
	{"file descriptor", `exec 9< .superloop/config.json && echo x > /proc/self/fd/9`, true},
	{"standard input", `echo x > /proc/self/fd/0`, true},
	{"specs", `echo x > .superloop/specs/demo.md; echo x > .superloop/specs/other.md`, true},
	{"another loop", `mkdir -p .superloop/loops/other && echo x > .superloop/loops/other/state.json`, true},
	{"journal", `echo '{"event":"forged"}' >> "$LOOP"/events.jsonl`, true},
	{"journal truncated", `: > "$LOOP"/events.jsonl`, true},
	{"journal removed", `rm -f "$LOOP"/events.jsonl; echo x > "$LOOP"/events.jsonl`, true},
	{"journal renamed", `mv "$LOOP"/events.jsonl "$LOOP"/e; cp "$LOOP"/e "$LOOP"/events.jsonl; echo x >> "$LOOP"/events.jsonl`, true},
	{"proposals", `echo x > "$LOOP"/proposals/1.json; echo x > "$LOOP"/proposals/2.json; rm -rf "$LOOP"/proposals`, true},
	{"escalation", `echo x > "$LOOP"/escalation.json; echo x > y; mv y "$LOOP"/escalation.json`, true},
	{"loop renamed", `mv "$LOOP" "$LOOP".old; rm -rf "$LOOP"; mkdir -p "$LOOP"; echo x > "$LOOP"/events.jsonl`, true},
	{"pin", `echo x > "$PRIVATE"/repo/pin.json; echo x > "$PRIVATE"/new; rm -rf "$PRIVATE"; mkdir -p "$PRIVATE"/repo; echo x > "$PRIVATE"/repo/pin.json`, true},
	{"state directory renamed", `mv ~/.local ~/l; mkdir -p "$PRIVATE"/repo; echo x > "$PRIVATE"/repo/pin.json`, true},
	{"state directory renamed, higher up", `mv ~/.local/state ~/s; mkdir -p "$PRIVATE"/repo; echo x > "$PRIVATE"/repo/pin.json`, true},
	{"repository renamed", `mv "$PWD" "$PWD.old"; mkdir -p "$PWD/.superloop"; echo x > "$PWD/.superloop/config.json"`, true},
	{"repository exchanged", `cp -r "$PWD" "$PWD.new"; echo x > "$PWD.new/.superloop/config.json"; "$TOOL" trickster exchange "$PWD" "$PWD.new"`, true},
	{"umount", `umount .superloop; umount -l .superloop; umount -l "$LOOP" "$PRIVATE" "$LOOP"/events.jsonl; echo x > .superloop/new`, false},
	{"remount", `mount -o remount,rw .superloop; mount -o remount,bind,rw .superloop; "$TOOL" trickster clear "$PWD/.superloop" x; echo x > .superloop/new`, false},
	{"move the mount", `mkdir m; mount --move .superloop m; "$TOOL" trickster move "$PWD/.superloop" "$PWD/m"; echo x > .superloop/new`, false},
	{"mount over", `mount --bind sub .superloop; mount -t tmpfs none .superloop; echo x > .superloop/new`, false},
	{"uncover", `"$TOOL" trickster uncover "$PWD" .superloop/config.json; "$TOOL" trickster uncover "$PRIVATE"/.. superloop/new`, false},
	{"handle", `for at in / "$PWD" "$PWD/sub" "$LOOP"; do for f in .superloop/config.json .superloop "$LOOP"/proposals; do "$TOOL" trickster handle "$at" "$f"; done; done`, false},
}

// nested are the escapes again, with every capability in namespaces of the
// agent's own.
const nested = `unshare -Urmpf --mount-proc bash -c `

func TestAgentsCannotChangeWhatIsProtected(t *testing.T) {
	t.Parallel()
	eachShielded(t, func(t *testing.T, s *shielded) {
		s.withTool(t)
		try := func(t *testing.T, deep bool, script string) (held bool) {
			before := s.look(t)
			a := s.agent("{ " + script + "; } 2>&1; echo end")
			if deep {
				a.Argv = []string{"bash", "-c", nested + `"$1"`, "agent", a.Argv[2]}
			}
			a.Stdin = s.repo + "/.superloop/config.json"
			o := s.runAgent(t, a)
			if !strings.HasSuffix(o.Result.Stdout.Text(), "end\n") {
				t.Fatal(o)
			}
			after := s.look(t)
			if before != after {
				t.Errorf("before:\n%s\nafter:\n%s\n%v", before, after, o)
			}
			return before == after
		}
		var all []string
		for _, e := range escapes {
			all = append(all, "(\n"+e.script+"\n)")
		}
		for _, deep := range []bool{false, true} {
			if try(t, deep, strings.Join(all, "; ")) {
				continue
			}
			s = shieldedWorld(t, s.uid, "") // which was it?
			s.withTool(t)
			for _, e := range escapes {
				t.Run(fmt.Sprint(e.name, " nested:", deep), func(t *testing.T) { try(t, deep, e.script) })
			}
		}
	})
}

// The control: without protection the escapes do harm.
func TestWithoutProtectionTheyDoHarm(t *testing.T) {
	t.Parallel()
	for _, e := range escapes {
		if !e.alone {
			continue
		}
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			s := shieldedWorld(t, os.Getuid(), "")
			s.withTool(t)
			before := s.look(t)
			a := s.agent(e.script)
			a.Plain, a.Stdin = true, s.repo+"/.superloop/config.json"
			o := s.runAgent(t, a)
			if before == s.look(t) {
				t.Errorf("it does no harm: %v", o)
			}
		})
	}
}

// look is what a supervisor finds at the places that are protected.
func (s *shielded) look(t testing.TB) string {
	t.Helper()
	var b strings.Builder
	show := func(path string) {
		if info, err := os.Lstat(path); err != nil || info.Mode()&os.ModeSymlink != 0 {
			fmt.Fprintln(&b, path, "is not there, or a link")
			return
		}
		b.WriteString(picture(t, path, true))
	}
	for _, path := range []string{s.repo + "/.superloop/config.json", s.repo + "/.superloop/specs", s.loop + "/events.jsonl", s.loop + "/proposals", s.loop + "/escalation.json", s.private} {
		show(path)
	}
	for _, dir := range []string{s.repo + "/.superloop", s.repo + "/.superloop/loops"} {
		list, err := os.ReadDir(dir)
		info, serr := os.Lstat(dir)
		fmt.Fprintln(&b, dir, list, err, serr)
		if serr == nil {
			fmt.Fprintln(&b, info.Mode())
		}
	}
	return b.String()
}

// What is not protected works: the repository, the loop's directory, links and
// renames between places, temporary files, reading what is read-only.
func TestAgentsCanWork(t *testing.T) {
	t.Parallel()
	eachShielded(t, func(t *testing.T, s *shielded) {
		a := s.agent(`set -e; umask > umask; echo x > new; ln new sub/link; mv new ../outside/moved; mv ../outside/moved back; rm -rf sub/deep
cat .superloop/config.json .superloop/specs/demo.md "$LOOP"/events.jsonl > /dev/null
echo plan > "$LOOP"/plan.md; mkdir -p "$LOOP"/logs/iter-1; echo x > "$LOOP"/logs/iter-1/log; mv "$LOOP"/plan.md "$LOOP"/plan2.md
[ -z "$(ls -A $PRIVATE)" ]; cat umask; id -u; id -g; pwd; mktemp -u > /dev/null; script -qc tty /dev/null </dev/null >/dev/null; echo good`)
		mask, err := exec.Command("sh", "-c", "umask").Output()
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("%s%d\n%d\n%s\ngood\n", mask, s.uid, s.uid, s.repo)
		o := s.runAgent(t, a)
		if o.Result.Stdout.Text() != want || o.Result.Code != 0 {
			t.Errorf("want %q, %v", want, o)
		}
		info, err := os.Stat(s.repo + "/back")
		if err != nil || int(owner(t, s.repo+"/back")) != s.uid {
			t.Error(info, err)
		}
	})
}
