// Command release makes what a release consists of, as .goreleaser.yaml says: programs for each system, packages, the
// container image, the list of what is in them, checksums. It publishes nothing.
//
//	go run ./internal/tools/release [--snapshot [--quick]]
//	go run ./internal/tools/release --site DIR
//
// It needs the Go module proxy for the tools that it runs, once: they are kept by version in the user's cache directory. The
// image is made where docker runs, and left out elsewhere. --snapshot makes a release of any commit; without it the commit
// has a tag. --site makes the documentation as a site, in DIR. --parts makes what packages hold beside the program; it is
// for .goreleaser.yaml.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"github.com/superloop/superloop/internal/durable"
)

// The tools, by version: goreleaser 2.17 needs a module that the module proxy does not serve.
const (
	goreleaser = "github.com/goreleaser/goreleaser/v2@v2.16.0"
	cyclonedx  = "github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	snapshot := flags.Bool("snapshot", false, "make a release of a commit without a tag")
	quick := flags.Bool("quick", false, "with --snapshot: for linux on amd64 only, and without the image")
	site := flags.String("site", "", "make the documentation as a site, in this new `DIR`")
	dir := flags.String("parts", "", "make what packages hold beside the program, in `DIR`, with the program that is there")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("no arguments are known, but there is %q; type: go run ./internal/tools/release --help", flags.Arg(0))
	case *dir != "":
		return parts(durable.OS(), *dir)
	case *site != "":
		abs, err := filepath.Abs(*site)
		if err != nil {
			return err
		}
		return show(nil, "go", "run", "-C", "internal/tools/site", ".", abs)
	}
	bin, err := tools()
	if err != nil {
		return err
	}
	env := []string{"PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH")}
	args = []string{"release", "--clean", "--skip=publish"}
	if *snapshot {
		args = []string{"release", "--clean", "--snapshot"}
	}
	if _, err := output("git", "ls-remote", "--get-url"); err != nil { // without a remote goreleaser takes the commit to be unknown
		env = append(env, "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=remote.origin.url", "GIT_CONFIG_VALUE_0=https://github.com/superloop/superloop")
	}
	if *quick {
		env = append(env, "SUPERLOOP_RELEASE_QUICK=1")
		args = append(args, "--skip=docker")
	} else if err := exec.Command("docker", "buildx", "inspect").Run(); err != nil {
		fmt.Println("(docker does not run here, or lacks buildx: the container image is left out)")
		args = append(args, "--skip=docker")
	}
	return show(env, filepath.Join(bin, "goreleaser"), args...)
}

// tools installs the tools that are not there yet, and returns their directory.
func tools() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	_, version, _ := strings.Cut(goreleaser, "@")
	_, lister, _ := strings.Cut(cyclonedx, "@")
	bin := filepath.Join(cache, "superloop-release", version+"-"+lister)
	for _, tool := range []string{goreleaser, cyclonedx} {
		module, _, _ := strings.Cut(tool, "@")
		name := path.Base(strings.TrimSuffix(module, "/v2"))
		if _, err := os.Stat(filepath.Join(bin, name)); err == nil {
			continue
		}
		fmt.Printf("building %s into %s, once; goreleaser takes some minutes\n", tool, bin)
		if err := show([]string{"GOBIN=" + bin, "CGO_ENABLED=0"}, "go", "install", tool); err != nil {
			return "", fmt.Errorf("installing %s: %w (is there a network?)", tool, err)
		}
	}
	return bin, nil
}

// show runs a program with what it prints shown.
func show(env []string, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", filepath.Base(name), strings.Join(args, " "), err)
	}
	return nil
}

// output runs a program and returns what it prints.
func output(name string, args ...string) ([]byte, error) {
	out, err := exec.Command(name, args...).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil, fmt.Errorf("%s %s: %w: %s", filepath.Base(name), strings.Join(args, " "), err, strings.TrimSpace(string(exit.Stderr)))
	}
	return out, err
}
