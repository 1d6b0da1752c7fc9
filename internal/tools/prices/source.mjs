// Prints what the npm package @pydantic/genai-prices (MIT) holds, for the Go
// program beside this file and for the golden test of roles/agent/price.
//
//   npm install --prefix DIR @pydantic/genai-prices@VERSION
//   GENAI_PRICES=DIR node source.mjs data       its version and all its prices, as JSON
//   GENAI_PRICES=DIR node source.mjs golden prices.json   what it computes, as tab-separated lines
//
// DATE, of the version's release, is what `npm view @pydantic/genai-prices time` says.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

const root = join(process.env.GENAI_PRICES ?? '.', 'node_modules/@pydantic/genai-prices')
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
const { calcPrice, waitForUpdate } = await import(pathToFileURL(join(root, 'dist/index.js')))
const providers = await waitForUpdate()

// names that a match rule takes, and some beside them.
function names(rule) {
  if (rule.equals !== undefined) return [rule.equals]
  if (rule.starts_with !== undefined) return [rule.starts_with, rule.starts_with + '-20260102']
  if (rule.ends_with !== undefined) return ['x/' + rule.ends_with]
  if (rule.contains !== undefined) return ['eu.' + rule.contains + '-v1:0']
  if (rule.regex !== undefined) {
    const plain = rule.regex.replace(/^\^|\$$/g, '')
    if (plain.startsWith('(?!')) return []
    return [plain.replaceAll('\\.', '.').replaceAll('\\d{8}', '20260102').replaceAll('\\d{4}-\\d{2}-\\d{2}', '2026-01-02').replaceAll('\\d', '7')]
  }
  return (rule.or ?? rule.and).flatMap(names)
}

const usages = [
  { in: 3600, read: 900, write: 150, out: 240 },
  { in: 1234567, read: 0, write: 0, out: 98765 },
  { in: 1000, read: 198999, write: 0, out: 10 },
  { in: 1001, read: 199000, write: 0, out: 10 },
  { in: 17, read: 80001, write: 192000, out: 3 },
  { in: 0, read: 0, write: 0, out: 777 },
  { in: 128001, read: 0, write: 0, out: 1 },
]
const times = ['2025-02-01T12:00:00Z', '2025-06-10T00:00:00Z', '2026-03-12T23:59:59Z', '2026-03-13T00:00:00Z', '2026-07-30T03:59:59.999Z',
  '2026-08-21T04:00:00Z', '2026-11-21T00:30:00Z', '2026-11-21T16:30:00Z', '2027-01-01T06:00:00Z']

function golden(path) {
  const table = JSON.parse(readFileSync(path, 'utf8')).providers
  const kept = new Set(table.map((p) => p.id))
  const known = new Set(table.flatMap((p) => p.models.map((m) => p.id + ' ' + m.id)))
  const main = new Set(['anthropic', 'openai', 'google', 'deepseek'])
  let n = 0
  const line = (provider, model, at, u) => {
    const r = calcPrice(
      { input_tokens: u.in + u.read + u.write, cache_read_tokens: u.read, cache_write_tokens: u.write, output_tokens: u.out },
      model, { providerId: provider, timestamp: new Date(at) })
    const has = (key) => r !== null && r.model_price[key] !== undefined
    const keys = ['input_mtok', 'cache_read_mtok', 'cache_write_mtok', 'output_mtok'].map((key, i) => (has(key) ? 'irwo'[i] : '-')).join('')
    console.log([provider, model, at, u.in, u.read, u.write, u.out, r === null ? 'unknown' : r.total_price, keys, r === null ? '-' : r.model.id].join('\t'))
  }
  // kinds moves what the model has no price for to the plain input, but of every
  // fifth one.
  const kinds = (m, u) => {
    const text = JSON.stringify(m.prices)
    if (n % 5 === 4) return u
    const read = text.includes('cache_read_mtok') ? u.read : 0
    const write = text.includes('cache_write_mtok') ? u.write : 0
    return { in: u.in + u.read - read + u.write - write, read, write, out: u.out }
  }
  for (const p of providers) {
    if (!kept.has(p.id)) continue
    for (const m of p.models) {
      if (!known.has(p.id + ' ' + m.id)) continue
      const all = [...new Set([...names(m.match), m.id])]
      const some = main.has(p.id) ? all : all.slice(0, 1)
      for (const name of some) {
        line(p.id, name, times[n % times.length], kinds(m, usages[n % usages.length]))
        n++
      }
      // A price that changes is asked for at every time, one with tiers for every usage.
      if (Array.isArray(m.prices)) for (const at of times) line(p.id, all[0], at, kinds(m, usages[0]))
      if (main.has(p.id) && JSON.stringify(m.prices).includes('tiers')) for (const u of usages) line(p.id, all[0], times[3], kinds(m, u))
    }
  }
  for (const name of ['claude-sonnet-4-5-20250929', 'no-such-model', 'claude-opus-4-1@20250805', 'gpt-5-20250807'])
    for (const provider of kept) line(provider, name, times[6], usages[0])
}

if (process.argv[2] === 'golden') golden(process.argv[3])
else process.stdout.write(JSON.stringify({ version, providers }) + '\n')
