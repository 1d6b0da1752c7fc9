// States of loops in words, as the command line says them.
import {h} from './dom.js';
import {money, wait} from './time.js';

/** @type {Record<string, [string, string]>} */
const words = {
  pending: ['not begun', 'faint'], running: ['running', 'run'], recovering: ['recovering', 'run'], awaiting_human: ['asks you', 'ask'], awaiting_approval: ['asks you', 'ask'],
  rate_limited: ['waits for a limit', 'wait'], paused: ['paused', 'faint'], completed: ['completed', 'good'], stuck: ['stuck', 'bad'],
  limit_reached: ['limit reached', 'bad'], failed: ['failed', 'bad'], cancelled: ['cancelled', 'faint'],
};

/** The machines of a fleet by their ids, as GET /api/v1/machines has them. Of a daemon there are none. @type {Map<string, any>} */
export const machines = new Map();

/** Whether the machine of a loop has a route, by its name. @param {any} r a row @param {string} route */
export const can = (r, route) => !machines.get(r.machine)?.lacks?.includes(route);

/** Whether somebody wants it to run. @param {any} r a row */
export const goes = (r) => r.wanted === 'running' || r.wanted === 'fleet' && r.status !== 'paused';

/** @param {any} r a row @returns {[string, string]} the word and its tone */
export function status(r) {
  if (r.as_of) return ['away', 'bad'];
  if (r.phase === 'failing') return ['cannot be run', 'bad'];
  if (r.sub_status) return words.awaiting_human; // its agent is held
  if (r.phase === 'queued' && !asks(r)) return ['queued', 'wait'];
  if (r.phase === 'waiting' && r.status === 'running') return ['waits', 'wait'];
  const [word, tone] = words[r.status] ?? [r.status, 'faint'];
  if (tone === 'run' && !r.supervised) return goes(r) ? ['queued', 'wait'] : ['interrupted', 'faint'];
  return [word, tone];
}

/** @param {any} r */
export const asks = (r) => !!r.sub_status || r.status === 'awaiting_human' || r.status === 'awaiting_approval';
/** @param {any} r */
export const ended = (r) => ['completed', 'stuck', 'limit_reached', 'failed', 'cancelled'].includes(r.status);
/** @param {any} r */
export const works = (r) => status(r)[1] === 'run';

/** The filters of the overview. @type {[string, string, (r: any) => boolean][]} */
export const filters = [
  ['all', 'all', () => true],
  ['ask', 'asks you', asks],
  ['run', 'running', works],
  ['wait', 'waiting', (r) => status(r)[1] === 'wait' || r.status === 'paused' || r.status === 'pending' && !works(r)],
  ['bad', 'went wrong', (r) => status(r)[1] === 'bad'],
  ['done', 'ended', ended],
];

/** @type {Record<string, string>} */
const steps = {
  run_role: 'a role', run_tests: 'the tests', check_promise: 'the promise', check_checklists: 'the checklists', check_prerequisites: 'the prerequisites', collect_evidence: 'the evidence',
  run_validation: 'the validation', check_tree: 'a look at the files', run_final: 'the tests in a fresh checkout', check_stuck: 'a look at progress', commit: 'the commit', report: 'the reports',
  take_proposal: 'a look at a proposal', judge_attempt: 'the verdict on a command', execute_recovery: 'a recovery', check_tool: 'a check of a tool', diagnose: 'a diagnosis', analyse: 'an analysis', wait: 'a wait',
};

/** Questions in few words. @type {Record<string, string>} */
const short = {
  recovery_approval_required: 'May this command run?', recovery_failed: 'A recovery has failed', role_failure: 'It fails again and again', policy_change: 'May the policy be looser?',
  runner_unavailable: 'An agent cannot run', remediation_exhausted: 'No known way is left', completion_approval: 'Is the loop done?', tool_permission: 'May an agent use a tool?',
};

/** @param {any} q a question */
export const brief = (q) => short[q.question?.type] ?? q.title;

/** What a loop does now. @param {any} r */
export function doing(r) {
  if (r.step === 'run_role') return [r.role, r.runner, r.model].filter(Boolean).join(' · ');
  return steps[r.step] ?? '';
}

// How long a role may say nothing before that is worth a word, in milliseconds.
export const quiet = 30_000;

/** How long the role says nothing; 0 if it is not quiet. @param {any} r @param {number} now */
export function silent(r, now) {
  if (r.step !== 'run_role' || !r.said_at || !r.supervised) return 0;
  const t = now - Date.parse(r.said_at);
  return t > quiet ? t : 0;
}

/** The ends of roles: what runs and costs are counted of. */
export const roleEnds = 'role_[eft]*';

/** What a loop has spent: a lower bound, if a part is not known. @param {any} r */
export const spent = (r) => (r.unknown_cost && !r.cost_usd ? 'unknown' : (r.unknown_cost ? '≥ ' : '') + money(r.cost_usd ?? 0)) + (r.budget_usd ? ' of ' + money(r.budget_usd) : '');

/** Where it is shown what a loop has spent: the ends of its roles, once there are some. @param {any} r */
export const spentOn = (r) => eventsOf(r.id, {event: r.cost_usd || r.unknown_cost || r.tokens ? roleEnds : ''});

/** Where the events of a loop are shown that a number was made of. @param {string} id @param {Record<string, string>} choice */
export const eventsOf = (id, choice) => `/loops/${encodeURIComponent(id)}#events?${new URLSearchParams(Object.entries(choice).filter(([, v]) => v))}`;

/** A span of time, as eventsOf and the API take it: without its end. @param {number} from @param {number} to @returns {Record<string, string>} */
export const span = (from, to) => ({from: new Date(from).toISOString(), to: new Date(to).toISOString()});

/** The name of a repository: the last part of its path. @param {string} repo */
export const base = (repo) => repo.split('/').filter(Boolean).pop() ?? repo;

/** @param {any} r */
export const where = (r) => base(r.repo) + (r.branch ? '@' + r.branch : '') + (machines.size > 1 ? ' on ' + machineOf(r) : '');

/** What people call its machine. @param {any} r a row */
export const machineOf = (r) => `${machines.get(r.machine)?.name ?? ''} ${(r.machine ?? '').slice(0, 8)}`.trim();

/** @type {[string, string][]} */
const order = [['tests', 'tests'], ['promise', 'promise'], ['checklist', 'checklist'], ['validation', 'validation'], ['prerequisites', 'prerequisites'], ['evidence', 'evidence'], ['reports', 'reports'],
  ['change', 'change'], ['tree', 'files'], ['final', 'fresh checkout'], ['approval', 'approval']];

/** @param {string} name @param {string} verdict @returns {string} ok, bad, open or off */
export function gateTone(name, verdict) {
  if (verdict === 'skipped') return 'off';
  if (['true', 'ok', 'approved'].includes(verdict)) return 'ok';
  if (['pending', 'unknown', 'unseen'].includes(verdict) || name === 'promise' || name === 'checklist') return 'open';
  return 'bad';
}

/** The gates in their order: name, verdict, tone. @param {Record<string, string>|undefined} gates @returns {[string, string, string][]} */
export function gates(gates) {
  return order.filter(([key]) => gates?.[key]).map(([key, name]) => [name, /** @type {any} */ (gates)[key], gateTone(key, /** @type {any} */ (gates)[key])]);
}

/** @param {Record<string, string>|undefined} all */
export function gateWords(all) {
  return gates(all).map(([name, verdict]) => `${name} ${verdict === 'true' ? 'given' : verdict === 'false' ? 'not given' : verdict}`).join(', ');
}

/** @param {Record<string, string>|undefined} all */
export function dots(all) {
  const list = gates(all).filter(([, , tone]) => tone !== 'off');
  return h('span.dots', {role: 'img', 'aria-label': 'gates: ' + (gateWords(all) || 'none yet'), title: gateWords(all) || 'no gate yet'}, list.map(([, , tone]) => h('i.dot.' + tone)));
}

/** When a loop that waits goes on; '' if nobody knows. @param {any} r @returns {string} */
export const goesOn = (r) => r.limit?.until ?? (r.phase === 'waiting' && r.until || '');

/** What happens next, and when. @param {any} r @param {number} now */
export function next(r, now) {
  if (r.as_of) return 'Its machine is away; this is what was known last. There the loop goes on.';
  const in_ = (/** @type {string} */ at) => ' ' + wait(at, now);
  if (r.phase === 'failing') return `The daemon tries again${r.until ? in_(r.until) : ''}: ${r.why}`;
  if (asks(r)) return 'It waits for your answer, and goes on at once when it has it.';
  if (r.phase === 'queued') return `It waits for a place${r.ahead ? `, behind ${r.ahead}` : ''}${r.why ? `: ${r.why}` : '.'}`;
  if (r.phase === 'foreign') return 'A terminal runs it; the daemon takes it when the terminal lets it go.';
  if (r.phase === 'waiting' && r.until && r.status === 'running') return `It goes on${in_(r.until)}.`;
  if (r.limit) return `It goes on${in_(r.limit.until)}, when the limit of ${r.limit.provider}${r.limit.account ? ' / ' + r.limit.account : ''} is over.`;
  switch (r.status) {
    case 'pending': return goes(r) ? 'It begins with its first role.' : 'Nothing, until you start it.';
    case 'paused': return 'Nothing, until you resume it.';
    case 'completed': return 'Nothing: it is completed.';
    case 'stuck': case 'limit_reached': case 'failed': case 'cancelled': return `Nothing, until you start it again.${r.detail || r.reason ? ` It ended because: ${r.detail || r.reason}` : ''}`;
  }
  if (!r.supervised) return goes(r) ? 'The daemon is about to take it up.' : 'Nothing, until you resume it.';
  if (r.step === 'run_role') return `When the ${r.role} is done, the next role or the gates of iteration ${r.iteration}.`;
  return steps[r.step] ? `After ${steps[r.step]}, the next step of iteration ${r.iteration}.` : `Iteration ${r.iteration} goes on.`;
}
