package main

import (
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/urfave/cli/v2"
)

// The release build sets these (-ldflags "-X main.release=1.2.3 ..."; .goreleaser.yaml): the go command records no commit
// in a work tree of git, nor with -buildvcs=false.
var release, commit, date string

// built says what this program was made of. Commit and Date are empty if the build did not know a repository, as
// "go install MODULE@VERSION" does not: its version is then all there is to know.
type built struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`   // the full hash
	Date     string `json:"date,omitempty"`     // of the commit, RFC 3339 in UTC: two builds of one commit are the same bytes
	Modified bool   `json:"modified,omitempty"` // files differed from the commit
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

// builtFrom reads what the go command has recorded in a program of which the release build says b: its Version, Commit and Date.
func builtFrom(info *debug.BuildInfo, b built) built {
	b.Go, b.OS, b.Arch = runtime.Version(), runtime.GOOS, runtime.GOARCH
	if b.Version != "" {
		return b
	}
	b.Version = "dev"
	if info.Main.Version != "" && info.Main.Version != "(devel)" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Date = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func (b built) String() string {
	s := "superloop " + b.Version + " (" + b.Go + ", " + b.OS + "/" + b.Arch
	if b.Commit != "" {
		day, _, _ := strings.Cut(b.Date, "T")
		s += "; commit " + b.Commit[:min(12, len(b.Commit))] + " of " + day
	}
	if b.Modified {
		s += ", with changes"
	}
	return s + ")"
}

// thisBuild says what the running program was made of.
func thisBuild() built {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{} // only a program that was not built by the go command
	}
	return builtFrom(info, built{Version: release, Commit: commit, Date: date})
}

func (a *app) version(c *cli.Context) error {
	b := thisBuild()
	return a.told(c, b, "%s\n", b)
}
