package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// Profile is what is known of a CLI besides its command line and its stream.
type Profile struct {
	Keys  []string // the variables that hold a credential of this CLI; those of other CLIs are withheld from it
	Login string   // the command that the operator types to log in
	// Version are the arguments that make the program print its version, on its first line, without a network; nil when
	// there are none. Help gives those that make it print the help that lists the flags of args, which are a command's
	// words after the program; nil when there is none.
	Version        []string
	Help           func(args []string) []string
	Hidden         []string                                // flags that work although the help does not list them
	Replaced       map[string]string                       // for a flag that releases have dropped, what to write instead
	LoggedIn       func(env []string) Login                // looks at the environment and at files only; nil: it cannot be told
	ChoosesSession bool                                    // a new session gets the id of Request.SessionID
	Account        func(req Request, env []string) Account // whose quota a run draws on; nil: that of the CLI itself
}

// Login says whether a CLI has a credential.
type Login struct {
	State string `json:"state"` // LoginYes, LoginNo or LoginUnknown
	How   string `json:"how"`   // where the credential comes from, or why that is not known; never a secret
}

// States of a Login.
const (
	LoginYes     = "yes"
	LoginNo      = "no"
	LoginUnknown = "unknown"
)

// Account is whose quota a run draws on: what one loop learns of it holds for all loops on the machine.
type Account struct {
	Provider string `json:"provider"` // one lower-case word: anthropic, openai, google
	ID       string `json:"account"`  // tells accounts of the provider apart; never a credential (see AccountID)
}

// AccountID names an account by its credential without telling it: the same endpoint and credential give the same word
// everywhere on the machine. parts are the two, "" where there is none.
func AccountID(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:6])
}

// AccountOf says whose quota a turn would draw on, given the supervisor's environment.
func AccountOf(req Request, environ []string) Account {
	a := For(req.CLI)
	if of := a.Profile().Account; of != nil {
		return of(req, environment(environ, nil, req.CLI.Env, req))
	}
	return Account{Provider: a.Name(), ID: AccountID(strings.Join(req.CLI.Command, "\x00"))}
}

// plainHelp is Profile.Help of a CLI with one help.
func plainHelp([]string) []string { return []string{"--help"} }

// valueIn is the value of a variable; the last of several counts.
func valueIn(env []string, name string) (value string) {
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			value = v
		}
	}
	return value
}

// firstIn is the first of the variables that is set and not empty.
func firstIn(env []string, names ...string) (name, value string) {
	for _, name := range names {
		if value := valueIn(env, name); value != "" {
			return name, value
		}
	}
	return "", ""
}

// homeIn is the directory that a variable names, else that below HOME.
func homeIn(env []string, variable, below string) string {
	if dir := valueIn(env, variable); dir != "" {
		return dir
	}
	return filepath.Join(valueIn(env, "HOME"), below)
}

// hostIn reports whether the host of a URL is that domain or below it. The domain begins with a dot.
func hostIn(base, domain string) bool {
	u, err := url.Parse(base)
	return err == nil && strings.HasSuffix("."+strings.ToLower(u.Hostname()), domain)
}

// maxSettings bounds the files of a CLI that are read; .claude.json grows to some megabytes.
const maxSettings = 16 << 20

// readSettings gives a file's content, nil where it cannot be read. Links are followed: many people link settings.
func readSettings(path string) []byte {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() || info.Size() > maxSettings {
		return nil
	}
	text, _ := os.ReadFile(path)
	return text
}

// readJSON reports whether the file is there and was understood.
func readJSON(path string, into any) bool { return json.Unmarshal(readSettings(path), into) == nil }

// firstFile is the first of the paths that leads to a regular file; "" if none does.
func firstFile(paths ...string) string {
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	return ""
}
