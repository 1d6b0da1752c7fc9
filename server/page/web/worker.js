import {Hub} from './hub.js';

const hub = new Hub();
/** @type {any} */ (self).onconnect = (/** @type {MessageEvent} */ e) => {
  const port = e.ports[0];
  const take = hub.join((m) => port.postMessage(m));
  port.onmessage = (m) => take(m.data);
};
