#compdef superloop
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
        compadd -- ${(f)"$(superloop __complete flags ${words[2,3]})"}
    elif (( CURRENT == 3 )) && [[ -n "$(superloop __complete verbs ${words[2]})" ]]; then
        compadd -- ${(f)"$(superloop __complete verbs ${words[2]})"}
    else
        _files
    fi
}
if [[ "$funcstack[1]" = "_superloop" ]]; then _superloop "$@"; else compdef _superloop superloop; fi
