package main

import (
	"fmt"

	"github.com/urfave/cli/v2"
)

// The scripts ask the program itself: what is left to complete is its last
// argument's business, and loop ids come from the repository at hand.
const (
	bashCompletion = `# bash completion of superloop: source <(superloop completion bash)
_superloop() {
    local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}" words
    if [[ "$prev" == --loop ]]; then
        words=$(superloop __complete loops 2>/dev/null)
    elif [[ "$prev" == --role ]]; then
        words="planner implementer tester reviewer tests"
    elif [[ $COMP_CWORD -eq 1 ]]; then
        words=$(superloop __complete verbs)
    elif [[ "$cur" == -* ]]; then
        words=$(superloop __complete flags "${COMP_WORDS[1]}")
    else
        COMPREPLY=($(compgen -f -- "$cur"))
        return
    fi
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -F _superloop superloop
`
	zshCompletion = `#compdef superloop
# zsh completion of superloop: source <(superloop completion zsh)
_superloop() {
    local prev="${words[CURRENT-1]}"
    if [[ "$prev" == --loop ]]; then
        compadd -- ${(f)"$(superloop __complete loops 2>/dev/null)"}
    elif [[ "$prev" == --role ]]; then
        compadd -- planner implementer tester reviewer tests
    elif (( CURRENT == 2 )); then
        compadd -- ${(f)"$(superloop __complete verbs)"}
    elif [[ "${words[CURRENT]}" == -* ]]; then
        compadd -- ${(f)"$(superloop __complete flags ${words[2]})"}
    else
        _files
    fi
}
if [[ "$funcstack[1]" = "_superloop" ]]; then _superloop "$@"; else compdef _superloop superloop; fi
`
	fishCompletion = `# fish completion of superloop: superloop completion fish | source
complete -c superloop -f
complete -c superloop -n __fish_use_subcommand -a '(superloop __complete verbs)'
complete -c superloop -l loop -x -a '(superloop __complete loops 2>/dev/null)'
complete -c superloop -l role -x -a 'planner implementer tester reviewer tests'
complete -c superloop -n 'not __fish_use_subcommand' -a '(superloop __complete flags (commandline -opc)[2])'
`
)

func (a *app) completionCommand() *cli.Command {
	scripts := map[string]string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}
	return &cli.Command{
		Name: "completion", Usage: "print a shell's completion script", ArgsUsage: "bash|zsh|fish",
		Action: func(c *cli.Context) error {
			s, ok := scripts[c.Args().First()]
			if !ok || c.NArg() != 1 {
				return failf(exitUsage, "superloop completion bash", "completion wants one of bash, zsh, fish")
			}
			_, err := fmt.Fprint(a.stdout, s)
			return err
		},
	}
}

// completeCommand is what the completion scripts ask.
func (a *app) completeCommand() *cli.Command {
	return &cli.Command{
		Name: "__complete", Hidden: true, ArgsUsage: "verbs|loops|flags VERB",
		Action: func(c *cli.Context) error {
			switch c.Args().First() {
			case "verbs":
				for _, cmd := range a.commands() {
					if !cmd.Hidden {
						fmt.Fprintln(a.stdout, cmd.Name)
					}
				}
			case "flags":
				for _, cmd := range a.commands() {
					if cmd.Name != c.Args().Get(1) {
						continue
					}
					for _, f := range cmd.Flags {
						fmt.Fprintln(a.stdout, "--"+f.Names()[0])
					}
				}
			case "loops":
				repo, err := a.repo(c)
				if err != nil {
					return err
				}
				ids, err := a.loopIDs(repo)
				if err != nil {
					return err
				}
				for _, id := range ids {
					fmt.Fprintln(a.stdout, id)
				}
			}
			return nil
		},
	}
}
