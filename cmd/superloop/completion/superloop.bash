# bash completion of superloop: source <(superloop completion bash)
_superloop() {
    local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}" words
    if [[ "$prev" == --loop ]]; then
        words=$(superloop __complete loops 2>/dev/null)
    elif [[ "$prev" == --role ]]; then
        words="planner implementer tester reviewer tests"
    elif [[ $COMP_CWORD -eq 1 ]]; then
        words=$(superloop __complete verbs)
    elif [[ "$cur" == -* ]]; then
        words=$(superloop __complete flags "${COMP_WORDS[@]:1:2}")
    elif [[ $COMP_CWORD -eq 2 ]] && words=$(superloop __complete verbs "${COMP_WORDS[1]}") && [[ -n "$words" ]]; then
        :
    else
        COMPREPLY=($(compgen -f -- "$cur"))
        return
    fi
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -F _superloop superloop
