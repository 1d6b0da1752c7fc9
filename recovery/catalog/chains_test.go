package catalog

import (
	"fmt"
	"strings"
	"testing"
)

// The chains are those of the design, to the letter: approach, executor,
// confidence, and what is only ever proposed.
// Conforms: 002-tree-chain, 002-2-p1, 002-2-p2, 002-2-p3, 002-3-p2, 002-4-p2, 002-4-p3, 002-4-p4, 002-5-p1, 002-5-p2
// Conforms: 002-6-p1, 002-6-p2, 002-6-p3, 002-7-p1, 002-7-p2, 002-7-p3, 002-8-p1, 002-8-p2, 002-8-p3, 002-9-p1
// Conforms: 002-9-p2, 002-9-p3, 002-10-p1, 002-10-p2, 003-c2.1-fix, 003-c2.3-fix, 003-c2.7-fix
func TestChainsAreTheDesign(t *testing.T) {
	t.Parallel()
	const design = `command_not_found: install_recipe:wrapper .8, alternative_command:role .6, switch_runner:runner .4 | tool_not_found: available_alternative:role .8, decompose:role .7, enable_tool:human .6 | permission_denied: own_directory:role .9, fix_repo_ownership:wrapper(proposal) .5 | timeout: extend_timeout:wrapper .6, reduce_scope:role .8, stream_results:role .7, background:role .5 | file_not_found: verify_path:role .9, create_file:role .6 | invalid_arguments: fix_types:role 1.0, check_schema:role .9, simplify:role .7 | syntax_error: fix_syntax:role .8, simpler_command:role .9, alternative_syntax:wrapper(proposal) .6 | network_error: retry_backoff:wrapper .7, alternative_host:wrapper(proposal) .6, cached_data:role .5 | rate_limited: wait_retry:wrapper .9, reduce_frequency:role .8, alternative_provider:runner .6 | disk_full: clean_caches:wrapper(proposal) .6, smaller_output:role .5 | dependency: install_declared:wrapper .9, clean_reinstall:wrapper .7, add_dependency:role .6 | config: regenerate:wrapper .6, fix_file:role .8 | environment: env_fix:wrapper(proposal) .7, switch_runner:runner .4 | build_failure: rebuild:wrapper .7, clean_build:wrapper .6, install_build_deps:wrapper(proposal) .6 | resources: less_parallel:wrapper(proposal) .7, wait_retry:wrapper .5 | port_in_use: stop_own_child:wrapper .9, other_port:role .6 | lock_held: wait_retry:wrapper .9, remove_stale_lock:wrapper .6 | auth: | corrupted: refetch:wrapper .8, clear_cache:wrapper .7 | package_manager: repair_pm:wrapper(proposal) .7, refresh_index:wrapper(proposal) .7 | vcs: abort_or_stash:wrapper(proposal) .5, hint:role .7 | code_bug: | unknown: in_english:wrapper .5, plain_retry:wrapper .4`
	want := map[string]string{}
	for _, part := range strings.Split(design, " | ") {
		category, list, _ := strings.Cut(part, ":")
		want[category] = strings.TrimSpace(list)
	}
	c := loaded(t)
	for _, cat := range c.Categories {
		var got []string
		for _, a := range c.Chains[cat.ID].Approaches {
			proposal := ""
			if a.Proposal {
				proposal = "(proposal)"
			}
			confidence := strings.TrimPrefix(fmt.Sprintf("%.1f", a.Confidence), "0")
			got = append(got, fmt.Sprintf("%s:%s%s %s", a.ID, a.Executor, proposal, confidence))
		}
		if strings.Join(got, ", ") != want[cat.ID] {
			t.Errorf("%s: %q, want %q", cat.ID, got, want[cat.ID])
		}
	}
	if len(c.Chains) != len(want) {
		t.Errorf("%d chains, want %d", len(c.Chains), len(want))
	}
}
