# fish completion of superloop: superloop completion fish | source
complete -c superloop -f
complete -c superloop -n __fish_use_subcommand -a '(superloop __complete verbs)'
complete -c superloop -l loop -x -a '(superloop __complete loops 2>/dev/null)'
complete -c superloop -l role -x -a 'planner implementer tester reviewer tests'
complete -c superloop -n 'not __fish_use_subcommand' -a '(superloop __complete flags (commandline -opc)[2..3])'
complete -c superloop -n 'test (count (commandline -opc)) -eq 2' -a '(superloop __complete verbs (commandline -opc)[2])'
