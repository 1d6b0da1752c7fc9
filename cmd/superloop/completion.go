package main

import (
	"embed"
	"fmt"

	"github.com/urfave/cli/v2"
)

// completions are the scripts. They ask the program itself: what can stand at a place is known here, and the ids of
// loops come from the repository at hand.
//
//go:embed completion/superloop.*
var completions embed.FS

func (a *app) completion(c *cli.Context) error {
	script, err := completions.ReadFile("completion/superloop." + c.Args().First())
	if err != nil || c.NArg() != 1 {
		return failf(exitUsage, "superloop completion bash", "completion wants one of bash, zsh, fish")
	}
	_, err = a.stdout.Write(script)
	return err
}

// completeCommand is what the completion scripts ask.
func (a *app) completeCommand() *cli.Command {
	return &cli.Command{
		Name: "__complete", Hidden: true, ArgsUsage: "verbs|loops|flags VERB",
		Action: func(c *cli.Context) error {
			var lines []string
			for _, cmd := range a.commands() {
				switch {
				case c.Args().First() == "verbs" && !cmd.Hidden:
					lines = append(lines, cmd.Name)
				case c.Args().First() == "flags" && cmd.Name == c.Args().Get(1):
					for _, f := range cmd.Flags {
						lines = append(lines, "--"+f.Names()[0])
					}
				}
			}
			if c.Args().First() == "loops" {
				_, ids, err := a.chosenLoops(c)
				if err != nil {
					return err
				}
				lines = ids
			}
			for _, line := range lines {
				fmt.Fprintln(a.stdout, line)
			}
			return nil
		},
	}
}
