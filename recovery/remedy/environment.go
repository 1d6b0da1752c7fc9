package remedy

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// madeEnvironment is the directory of the virtual environment that the project recipes of Python make.
const madeEnvironment = ".venv"

// environment returns the name of the virtual environment in a directory, or "" if there is none with a Python and a
// pip that exist. An environment that git ignores counts like any other.
func environment(dir string) string {
	for _, name := range []string{madeEnvironment, "venv"} {
		if !slices.ContainsFunc([]string{"pyvenv.cfg", "bin/python", "bin/pip"}, func(file string) bool {
			_, err := os.Stat(filepath.Join(dir, name, file))
			return err != nil
		}) {
			return name
		}
	}
	return ""
}

// inEnvironment returns the commands of a project recipe for a project that has an environment already: its own pip is
// called, and no command makes the environment anew. That would take seconds, and could exchange its Python. Commands
// that remove the environment first stay as they are, and so do all commands if name is "".
func inEnvironment(name string, commands [][]string) [][]string {
	if name == "" || len(commands) == 0 || !makesEnvironment(commands[0]) {
		return commands
	}
	var own [][]string
	for _, argv := range commands[1:] {
		if rest, ok := strings.CutPrefix(argv[0], madeEnvironment+"/"); ok {
			argv = append([]string{name + "/" + rest}, argv[1:]...)
		}
		own = append(own, argv)
	}
	return own
}

func makesEnvironment(argv []string) bool {
	return slices.Equal(argv, []string{"python3", "-m", "venv", madeEnvironment})
}
