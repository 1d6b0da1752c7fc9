package agent

import (
	"encoding/json"
	"fmt"
	"strings"
)

// rule is what opencode's settings say of a permission: allow, deny or ask, or
// by pattern, of which the last that matches counts. Marshalled, patterns are
// sorted, and "*" is before all that says more.
type rule = map[string]string

// opencodePermissions gives the variables that hold a role to what it may do.
//
// Unlike other CLIs opencode allows everything by itself, and its order of
// precedence is not what one would expect: what a repository's own opencode.json
// grants to an agent by name beats OPENCODE_PERMISSION. An agent that may write
// that file could so free the next one, so for read-only the agent is named as
// well, in the settings that are read last, and may not hand work to others.
//
// A role with the workspace asks (and --auto answers) for nothing outside of it
// but the directories where it has to leave its files.
func opencodePermissions(req Request, environ []string) (map[string]string, error) {
	outer := rule{"*": "deny"}
	for _, dir := range outside(req) {
		outer[strings.TrimSuffix(dir, "/")+"/*"] = "allow"
	}
	switch req.Permissions {
	case PermitWorkspace:
		return map[string]string{"OPENCODE_PERMISSION": marshalled(map[string]any{"external_directory": outer})}, nil
	case PermitRead:
	default:
		return nil, nil
	}
	if _, own := req.CLI.Env["OPENCODE_PERMISSION"]; own {
		return nil, nil
	}
	allowed := map[string]any{
		"*": "deny", "edit": "deny", "bash": "deny", "task": "deny", "external_directory": outer,
		"read": rule{"*": "allow", "*.env": "deny", "*.env.*": "deny", "*.env.example": "allow"},
	}
	for _, name := range []string{
		"glob", "grep", "list", "lsp", "skill", "todowrite", "todoread", "webfetch", "websearch", "codesearch",
		"invalid", // answers a call of a tool that is not there
	} {
		allowed[name] = "allow"
	}
	content, err := opencodeContent(req, environ, allowed)
	if err != nil {
		return nil, err
	}
	return map[string]string{"OPENCODE_PERMISSION": marshalled(allowed), opencodeContentVariable: content}, nil
}

// opencodeContentVariable holds settings that are read after all files.
const opencodeContentVariable = "OPENCODE_CONFIG_CONTENT"

// opencodeContent adds the permissions of the agent that will run to the
// settings that the environment has already.
func opencodeContent(req Request, environ []string, allowed map[string]any) (string, error) {
	settings := map[string]any{}
	for _, text := range []string{valueIn(passed(req, environ), opencodeContentVariable), req.CLI.Env[opencodeContentVariable]} {
		if text == "" {
			continue
		}
		settings = map[string]any{}
		if err := json.Unmarshal([]byte(text), &settings); err != nil {
			return "", fmt.Errorf("adding the permissions of the %s to %s, which must be JSON without comments: %w", req.Role, opencodeContentVariable, err)
		}
	}
	name, _ := flagValue(req.words(), "--agent")
	if name == "" {
		name = "build"
		settings["default_agent"] = name
	}
	agents := object(settings, "agent")
	object(agents, name)["permission"] = allowed
	return marshalled(settings), nil
}

// object is the object at a key; anything else there is replaced by one.
func object(in map[string]any, key string) map[string]any {
	o, ok := in[key].(map[string]any)
	if !ok {
		o = map[string]any{}
		in[key] = o
	}
	return o
}

// marshalled: keys are sorted, and what came from JSON always goes back.
func marshalled(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}
