// The hub holds the session and the one stream from the daemon, for all tabs. It runs in a SharedWorker, so that the
// session's token is in no tab and in no storage; where there is none, it runs in the tab. It shows nothing.

/** @typedef {{post: (m: any) => void, watching: Set<string>, open: Map<number, AbortController>}} Tab */

// The daemon sends a comment every 15 s. A stream that says nothing for longer than this is broken.
const silence = 40_000;

export class Hub {
  /** @type {Set<Tab>} */ #tabs = new Set();
  /** @type {Map<string, any>} */ #rows = new Map();
  /** @type {Map<string, any>} */ #questions = new Map();
  #token = '';
  /** @type {any} */ #who = null;
  #last = '';
  #state = 'out';
  #detail = '';
  /** @type {Promise<any>|null} */ #trading = null;
  /** @type {AbortController|null} */ #stream = null;
  /** @type {{rows: Map<string, any>, gone: Set<string>, questions: Map<string, any>, events: any[], gaps: any[]}|null} */ #patch = null;

  /** @param {(m: any) => void} post @returns {(m: any) => void} what takes the messages of the tab */
  join(post) {
    /** @type {Tab} */
    const tab = {post, watching: new Set(), open: new Map()};
    this.#tabs.add(tab);
    return (m) => this.#take(tab, m);
  }

  /** @param {Tab} tab @param {any} m */
  async #take(tab, m) {
    switch (m.op) {
      case 'hello':
        this.#hail(tab);
        break;
      case 'trade':
        this.#trading = this.#trade(m.code);
        tab.post({kind: 'reply', id: m.id, ...await this.#trading});
        break;
      case 'call':
        tab.post({kind: 'reply', id: m.id, ...await this.#call(m)});
        break;
      case 'watch':
        if (m.on) tab.watching.add(m.loop);
        else tab.watching.delete(m.loop);
        break;
      case 'bye':
        for (const c of tab.open.values()) c.abort();
        this.#tabs.delete(tab);
    }
  }

  /** @param {Tab} tab */
  #hail(tab) {
    tab.post({kind: 'state', state: this.#state, detail: this.#detail, who: this.#who});
    tab.post({kind: 'patch', rows: [...this.#rows.values()], gone: [], questions: [...this.#questions.values()], events: [], gaps: [], whole: true});
  }

  /** @param {string} state @param {string} [detail] */
  #set(state, detail = '') {
    if (state === this.#state && detail === this.#detail) return;
    this.#state = state;
    this.#detail = detail;
    for (const t of this.#tabs) t.post({kind: 'state', state, detail, who: this.#who});
  }

  /** @param {string} code */
  async #trade(code) {
    const got = await this.#send({method: 'POST', path: '/api/v1/sessions', body: {code}}, '');
    if (!got.ok) return got;
    const {token, ...who} = got.data;
    this.#drop('');
    this.#token = token;
    this.#who = who;
    this.#set('connecting');
    void this.#follow();
    return {ok: true, status: got.status, data: who};
  }

  /** @param {any} m */
  async #call(m) {
    await this.#trading; // what is asked after a code belongs to its session, not to the one before
    if (!this.#token) return {ok: false, status: 401, data: {type: 'urn:superloop:unauthorized', detail: 'this page has no session'}};
    const token = this.#token;
    const got = await this.#send(m, token);
    if (got.status === 401 && token === this.#token) this.#drop(got.data?.detail ?? 'the session is over');
    return got;
  }

  /** @param {any} m @param {string} token @returns {Promise<{ok: boolean, status: number, data: any}>} */
  async #send(m, token) {
    /** @type {Record<string, string>} */
    const headers = {...m.headers};
    if (token) headers['Authorization'] = 'Bearer ' + token;
    if (m.body !== undefined) headers['Content-Type'] = 'application/json';
    try {
      const res = await fetch(m.path, {method: m.method ?? 'GET', headers, body: m.body === undefined ? undefined : JSON.stringify(m.body), cache: 'no-store', credentials: 'omit', redirect: 'error'});
      const text = await res.text();
      const json = (res.headers.get('Content-Type') ?? '').includes('json');
      return {ok: res.ok, status: res.status, data: json && text ? JSON.parse(text) : text};
    } catch {
      return {ok: false, status: 0, data: {type: 'urn:superloop:unreachable', detail: 'the daemon does not answer; superloop serve begins it'}};
    }
  }

  /** Ends the session. @param {string} why */
  #drop(why) {
    this.#stream?.abort();
    this.#stream = null;
    this.#token = '';
    this.#last = '';
    this.#who = null;
    const gone = [...this.#rows.keys()];
    this.#rows.clear();
    this.#questions.clear();
    this.#patch = null;
    if (gone.length) for (const t of this.#tabs) t.post({kind: 'patch', rows: [], gone, questions: [], events: [], gaps: [], whole: true});
    this.#set('out', why);
  }

  /** Reads the stream, and begins it again where it broke. */
  async #follow() {
    const token = this.#token;
    let pause = 250;
    while (token === this.#token) {
      const end = this.#stream = new AbortController();
      let timer = 0;
      const alive = () => {
        clearTimeout(timer);
        timer = /** @type {any} */ (setTimeout(() => end.abort(), silence));
      };
      try {
        alive();
        /** @type {Record<string, string>} */
        const headers = {Authorization: 'Bearer ' + token, Accept: 'text/event-stream'};
        if (this.#last) headers['Last-Event-ID'] = this.#last;
        const res = await fetch('/api/v1/stream', {headers, signal: end.signal, cache: 'no-store', credentials: 'omit', redirect: 'error'});
        if (res.status === 401) {
          this.#drop('the session is over');
          return;
        }
        if (res.status === 422) this.#last = '';
        if (!res.ok || !res.body) throw new Error(String(res.status));
        const seen = {rows: new Set(), questions: new Set()};
        const reader = res.body.pipeThrough(new TextDecoderStream()).getReader();
        let rest = '';
        for (;;) {
          const {value, done} = await reader.read();
          if (done) break;
          alive();
          rest += value;
          const parts = rest.split('\n\n');
          rest = /** @type {string} */ (parts.pop());
          for (const part of parts) {
            if (this.#message(part, seen)) pause = 250;
          }
          if (this.#state === 'live') this.#flush(); // the daemon sends together what it sees at one look
        }
      } catch {
        // The loop tries again.
      }
      clearTimeout(timer);
      if (token !== this.#token) return;
      this.#set('lost', 'the daemon does not answer');
      await new Promise((ok) => setTimeout(ok, pause));
      pause = Math.min(2 * pause, 5000);
    }
  }

  /** @param {string} part @param {{rows: Set<string>, questions: Set<string>}} seen @returns {boolean} whether the stream is live from here on */
  #message(part, seen) {
    let event = 'message', data = '', id = '';
    for (const line of part.split('\n')) {
      if (line.startsWith('event: ')) event = line.slice(7);
      else if (line.startsWith('data: ')) data += line.slice(6);
      else if (line.startsWith('id: ')) id = line.slice(4);
    }
    if (id) this.#last = id;
    if (!data) return false;
    const v = JSON.parse(data);
    const p = this.#patching();
    switch (event) {
      case 'row':
        seen.rows.add(v.id);
        this.#rows.set(v.id, v);
        p.rows.set(v.id, v);
        p.gone.delete(v.id);
        break;
      case 'question':
        seen.questions.add(v.id);
        if (v.state === 'pending') this.#questions.set(v.id, v);
        else this.#questions.delete(v.id);
        p.questions.set(v.id, v);
        break;
      case 'gone':
        this.#forget(v.loop_id);
        break;
      case 'events':
        p.events.push(v);
        break;
      case 'gap':
      case 'reset':
        p.gaps.push(v);
        break;
      case 'ready':
        // What was not told again is no more.
        for (const key of [...this.#rows.keys()]) if (!seen.rows.has(key)) this.#forget(key);
        for (const [key, q] of this.#questions) {
          if (!seen.questions.has(key)) {
            this.#questions.delete(key);
            p.questions.set(key, {...q, state: 'over'});
          }
        }
        this.#set('live');
        return true;
    }
    return false;
  }

  /** @param {string} id */
  #forget(id) {
    this.#rows.delete(id);
    const p = this.#patching();
    p.rows.delete(id);
    p.gone.add(id);
  }

  #patching() {
    if (!this.#patch) this.#patch = {rows: new Map(), gone: new Set(), questions: new Map(), events: [], gaps: []};
    return this.#patch;
  }

  #flush() {
    const p = this.#patch;
    this.#patch = null;
    if (!p) return;
    const all = {kind: 'patch', rows: [...p.rows.values()], gone: [...p.gone], questions: [...p.questions.values()]};
    for (const t of this.#tabs) {
      const events = p.events.filter((e) => t.watching.has(e.loop_id)), gaps = p.gaps.filter((e) => t.watching.has(e.loop_id));
      if (all.rows.length || all.gone.length || all.questions.length || events.length || gaps.length) t.post({...all, events, gaps});
    }
  }
}
