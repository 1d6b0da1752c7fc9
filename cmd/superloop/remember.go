package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/config/trust"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/schemas"
)

// remembering is the change that --remember makes to the configuration after the answer has been recorded.
type remembering struct {
	config  string // the path of the file
	was     []byte // the content from which next was made
	next    []byte // the content with the new entry
	mode    os.FileMode
	section trust.Section
	store   trust.Store
}

// rememberable prepares the change that adds the approved command to auto_approve, byte for byte. It returns nil if the
// command is listed already. Nothing but the list changes: rememberable refuses a file that differs from the pin, and
// it refuses a command that looseEntry objects to.
func (a *app) rememberable(c *cli.Context, rec escalation.Record, req escalation.AnswerRequest) (*remembering, error) {
	if rec.Question.Command == nil {
		return nil, failf(exitUsage, "", "--remember: there is no command to remember")
	}
	command := string(rec.Question.Command.Text)
	if req.Edit != nil {
		command = string(req.Edit.Text)
	}
	t, err := a.trusted(c)
	if err != nil {
		return nil, err
	}
	if t.pinErr == nil && !trust.Compare(t.pin.Section, t.section).Empty() {
		return nil, failf(exitFailed, "superloop config diff", "--remember: %s differs from what is trusted; decide about that first", t.name())
	}
	policy, _ := t.file.Policy(rec.Question.Loop)
	if policy == nil {
		return nil, failf(exitFailed, "", "--remember: %s has no recovery section", t.name())
	}
	if _, listed := policy.Listed(command); listed {
		return nil, nil
	}
	r := remembering{config: configFile(t.repo), store: t.store}
	info, err := os.Stat(r.config)
	if err != nil {
		return nil, err
	}
	r.mode = info.Mode().Perm()
	if r.was, err = config.Read(r.config); err != nil {
		return nil, err
	}
	own := fmt.Sprintf("/loops/%d/recovery", slices.IndexFunc(t.file.Loops, func(l config.Loop) bool { return l.ID == rec.Question.Loop }))
	if r.next, err = insertEntry(r.was, policy, command, own); err != nil {
		return nil, err
	}
	cfg, err := config.LoadBytes(r.config, r.next)
	if err != nil {
		return nil, err
	}
	if why := looseEntry(cfg, rec.Question.Loop, command); why != "" {
		return nil, failf(exitFailed, "superloop approve-recovery --loop "+rec.Question.Loop, "--remember: %s; approve it once instead", why)
	}
	r.section, err = trust.Of(cfg)
	return &r, err
}

// remember trusts the longer list first, and then writes it to the file. A supervisor that reads the file between the
// two steps finds fewer rights than the trusted ones, which it accepts. It never finds more.
func (a *app) remember(r *remembering, by string) error {
	now, err := config.Read(r.config)
	if err != nil {
		return err
	}
	if !bytes.Equal(now, r.was) {
		return errors.New("the file was changed in this moment")
	}
	if _, err := r.store.Save(trust.Pin{Section: r.section, At: time.Now(), How: trust.Trusted, By: by, Config: r.config}); err != nil {
		return err
	}
	return a.disk.WriteFile("config", r.config, r.next, r.mode)
}

// looseEntry says why a command must not get into auto_approve by a flag, which an operator gives in a hurry. It
// returns "" if nothing speaks against the command. It objects to a command that lint calls an error in that list, and
// to a command that hands a text to an interpreter or to a program that runs others with other rights or elsewhere. An
// operator can still write such an entry into the file, and trust it.
func looseEntry(cfg *config.Config, loop, command string) string {
	policy, _ := cfg.Policy(loop)
	entry, ok := policy.Listed(command)
	if !ok {
		return "it would not be listed for this loop"
	}
	a := recovery.Analyse(command)
	if len(a.Opaque) > 0 {
		return a.Opaque[0].Why
	}
	for _, p := range a.Parts {
		if interprets(p.Words) {
			return text.Display(p.Text) + " is an interpreter or a wrapper, which runs whatever it is given"
		}
	}
	at := policy.Pointer("auto_approve", entry)
	for _, f := range policy.Lint() {
		if f.Pointer == at && f.Severity == recovery.SevError {
			return f.Message
		}
	}
	return ""
}

// interprets reports whether a simple command is an interpreter without a script file, or a program that runs another
// program.
func interprets(words []string) bool {
	if len(words) == 0 {
		return false
	}
	switch strings.TrimRight(filepath.Base(words[0]), "0123456789.") {
	case "env", "sudo", "doas", "su", "xargs", "eval", "exec", "ssh", "nsenter", "unshare", "chroot":
		return true
	case "sh", "bash", "dash", "zsh", "ksh", "fish", "python", "pypy", "node", "deno", "perl", "ruby", "php", "lua", "tclsh", "osascript":
		return len(words) == 1 || strings.HasPrefix(words[1], "-")
	}
	return false
}

// insertEntry returns the file with a command as the first entry of the auto_approve list that the policy has. Every
// other byte of the file stays. own is the pointer to the loop's own recovery section, which may not exist.
func insertEntry(data []byte, p *recovery.Policy, command, own string) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // operators read the file, so && stays &&
	if err := enc.Encode(command); err != nil {
		return nil, err
	}
	entry := bytes.TrimRight(b.Bytes(), "\n")
	doc, _ := schemas.Read(schemas.Config, data)
	if doc == nil {
		return nil, failf(exitConfig, "superloop validate", "--remember: the configuration cannot be read")
	}
	at := p.Pointer("auto_approve")
	text := entry
	open := byte('[')
	if _, _, ok := doc.Position(at); !ok {
		at = strings.TrimSuffix(at, "/auto_approve")
		if _, _, ok := doc.Position(at); !ok {
			at = own // only the loop has a recovery section
		}
		text, open = []byte(`"auto_approve": [`+string(entry)+`]`), '{'
	}
	line, col, ok := doc.Position(at)
	if !ok {
		return nil, failf(exitConfig, "superloop validate", "--remember: there is no place for the entry at %s", at)
	}
	offset := offsetOf(data, line, col)
	if offset < 0 || data[offset] != open {
		return nil, failf(exitConfig, "superloop validate", "--remember: %s is not what it should be", at)
	}
	rest := bytes.TrimLeft(data[offset+1:], " \t\r\n")
	if len(rest) > 0 && rest[0] != ']' && rest[0] != '}' {
		text = append(text, ", "...)
	}
	return slices.Concat(data[:offset+1], text, data[offset+1:]), nil
}

// offsetOf returns the byte offset of a line and column, -1 if there is no such place. It counts as schemas.Document
// does: from 1, columns in characters.
func offsetOf(data []byte, line, col int) int {
	lines := bytes.SplitAfterN(data, []byte("\n"), line)
	at := len(data) - len(lines[len(lines)-1])
	for ; col > 1 && at < len(data); col-- {
		_, size := utf8.DecodeRune(data[at:])
		at += size
	}
	if len(lines) < line || at >= len(data) {
		return -1
	}
	return at
}
