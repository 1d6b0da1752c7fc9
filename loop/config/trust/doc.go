// Package trust keeps an agent that can write .superloop/config.json from
// allowing itself more than a person allowed. The part of a configuration that
// decides what runs, with what rights and where news go is its Section; the
// Section that a person trusted is pinned outside the repository (Store), and
// what the file says now is compared with the pin key by key.
//
// A change is a tightening or a loosening. A tightening is in force at once. A
// loosening is held, the pinned value stays, until a person trusts it. Effective
// is the Section that is in force while something is held: never looser than the
// pin, and, wherever "looser" has a meaning, never looser than the file.
//
// What is not understood is a loosening. These are understood; everything else
// in a Section is pinned as it is, and any change of it is held:
//
//	key                                    tighter is                 in force while it differs
//	recovery.enabled                       false                      false if either is
//	recovery.first_aid                     false                      false if either is
//	recovery.auto_approve                  fewer entries              the entries of both
//	recovery.require_human                 more patterns              the patterns of either
//	recovery.on_unknown                    deny, escalate, allow      the stricter
//	recovery.strict_require_human          true                       true if either is
//	recovery.max_auto_recoveries_per_run   lower                      the lower
//	recovery.cooldown_seconds              higher                     the higher
//	recovery.on_cooldown                   escalate, wait             the stricter
//	recovery.max_timeout_seconds           lower                      the lower
//	recovery.allow_privileged              false                      false if either is
//	recovery.allow_other_devices           false                      false if either is
//	recovery.guard                         strict, scripts, off       the stricter
//	recovery.network, entries.*.network    none, full                 none if either is
//	recovery.env_passthrough               fewer names                the names of both
//	recovery.sandbox.required              true                       true if either is
//	recovery.sandbox.caches                fewer directories          the directories of both
//	recovery.sandbox.read_roots            fewer; empty is everything the directories of both
//	runners.*                              one that no role runs goes the pinned ones
//	runners.*.permissions, roles.*         read-only; full is loosest the stricter; "" and workspace: the pinned
//	runners.*.pass_env                     fewer names, or []         the names of both; absent and a list: the pinned
//	loops.*                                one that goes              the loops of both
//	loops.*.tests.mode                     every, on_promise, disabled   the stricter; the pinned if the commands differ
//	loops.*.validation.enabled             true                       likewise
//	loops.*.validation.mode                every, on_promise          likewise
//	loops.*.validation.require_on_completion  true                    likewise
//	loops.*.approval.*                     true                       true if either is
//	loops.*.roles.*.runners                fewer besides the first    those of both
//	loops.*.respond.diagnostician          nobody                     nobody if the file says so, else the pinned one
//	escalation.slack.users                 fewer users                the users of both
//
// Pinned as they are: a runner's command, args, fast_args, prompt_mode, adapter
// and each variable of env; which roles a loop has, in which order, and the
// runner of each, which is the first of its runners; the commands of tests and
// validation and before a commit; each key of webhooks; the channels of
// escalation, and every key of escalation.slack and of recovery that is not in
// the table. A loop's recovery is compared as the policy that results for it, so
// that taking an override away is judged by what it does.
//
// One thing an order cannot say: where on_unknown is allow, a command that leaves
// auto_approve may still run as one that no list names, and then without the
// guard and the network of its own that only listed commands have.
//
// Not in the Section, and so in force as the file says: models and their tiers,
// the order in which the further runners of a role are asked, time bounds,
// budgets, prices, the times of escalation, checklists, prerequisites, evidence,
// the stuck check, how commits are made, what follows a failure (respond, but who
// is the diagnostician), and recovery.tests, which grant nothing. The checks of
// respond.preflight run nothing, and ask no other machine.
//
// Who runs as the same user as superloop, and is not confined, can write the pin
// too. The pin keeps a confined agent from loosening anything, and makes what an
// unconfined one does visible; it is no wall against the latter.
package trust
