// Plays a browser that uses the application of the guide "React and Next.js", whose compiled files are the argument.

import assert from 'node:assert/strict'
import { createPrivateKey, sign } from 'node:crypto'
import { createServer, request as forward } from 'node:http'
import { registerHooks } from 'node:module'
import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'

import { AuthClient } from '@supabase/auth-js'
import { current } from 'next/headers'
import { Redirect } from 'next/navigation'
import { NextRequest } from 'next/server'

const folder = pathToFileURL(`${process.argv[2]}/`)
// Bundlers add the extension of relative imports.
registerHooks({
  resolve(specifier, context, next) {
    const isCompiled = context.parentURL?.startsWith(folder.href) && specifier.startsWith('.')
    return next(isCompiled ? `${specifier}.js` : specifier, context)
  },
})
const load = (path) => import(new URL(path, folder))
const { APP_URL, AUTHSERVER_URL } = process.env
const PASSWORD = 'correct horse 1'

const { proxy } = await load('proxy.js')
const { signIn, signInWithGitHub, signOut, signUp } = await load('app/actions.js')
const { default: Account } = await load('app/account/page.js')
const { GET: callback } = await load('app/auth/callback/route.js')
const { accessToken, authClient, currentClaims } = await load('lib/auth.js')
const { callApi } = await load('lib/api.js')
const { cookieStorage } = await load('lib/cookie-storage.js')

// The cookies of the browser.
const jar = new Map()
const store = ({ name, value, options }) => {
  assert.equal(options.httpOnly, true)
  assert.ok(name.length + value.length < 4000)
  if (options.maxAge > 0) jar.set(name, value)
  else jar.delete(name)
}
const readable = (cookies) => ({ getAll: () => [...cookies].map(([name, value]) => ({ name, value })) })
const writable = () => ({ ...readable(jar), set: (name, value, options) => store({ name, value, options }) })
const cookieNames = () => [...jar.keys()]
const isVerifier = (name) => name.endsWith('-code-verifier.0')

// Runs proxy.ts and then the page, which cannot write cookies. Returns the page or the target of the redirect.
async function open(path, page) {
  const request = new NextRequest(`${APP_URL}${path}`, jar)
  const response = await proxy(request)
  response.changed.forEach(store)
  if (response.changed.length > 0) assert.equal(response.headers.get('Cache-Control'), 'private, no-store')
  if (response.headers.has('Location')) return response.headers.get('Location')
  const cookies = page === callback ? writable() : request.cookies
  const shown = current.run({ ...cookies, set: cookies === request.cookies ? refuse : cookies.set }, () => page(request))
  return shown.catch(targetOf)
}
const refuse = () => assert.fail('a page cannot write cookies')

// Runs a Server Action. Returns its result or the target of the redirect.
function act(action, fields = {}) {
  const form = new FormData()
  for (const [name, value] of Object.entries(fields)) form.set(name, value)
  return current.run(writable(), () => action('', form)).catch(targetOf)
}

function targetOf(error) {
  if (error instanceof Redirect) return error.url
  throw error
}

async function linkTo(email) {
  for (;;) {
    const messages = await (await fetch(`${AUTHSERVER_URL}/inbox/messages.json`)).json()
    const found = messages.find(({ to }) => to === email)
    if (found) return found.link
    await sleep(50)
  }
}

// Makes the stored access token expire.
function expire() {
  const storage = cookieStorage(writable())
  const session = JSON.parse(storage.getItem('session'))
  storage.setItem('session', JSON.stringify({ ...session, expires_at: 1 }))
  return session
}

const showsEmail = (page, email) => JSON.stringify(page).includes(email)
const email = `next-${Date.now()}@example.com`

// Sign-up, the link of the email, and sign-out.
assert.match(await act(signUp, { email, password: PASSWORD }), /sent you an email/)
assert.ok(jar.size > 0 && cookieNames().every(isVerifier))
const landed = new URL((await fetch(await linkTo(email), { redirect: 'manual' })).headers.get('location'))
assert.equal(landed.origin + landed.pathname, `${APP_URL}/auth/callback`)
assert.equal(await open(landed.pathname + landed.search, callback), '/account')
assert.ok(!jar.has('session-code-verifier.0') && jar.has('session.0'))
assert.ok(showsEmail(await open('/account', Account), email))
assert.equal(await open(landed.pathname + landed.search, callback), '/sign-in')
assert.equal(await act(signOut), '/sign-in')
assert.deepEqual(cookieNames(), [])
assert.equal(await open('/account', Account), `${APP_URL}/sign-in`)
assert.equal(await open('/auth/callback?error_code=otp_expired', callback), '/sign-in')

// Sign-in, and requests at the same time that refresh.
assert.equal(await act(signIn, { email, password: 'a wrong one' }), 'The address or the password is wrong.')
assert.equal(await act(signIn, { email, password: PASSWORD }), '/account')
const before = expire()
const opened = await Promise.all([open('/account', Account), open('/account', Account)])
assert.ok(opened.every((page) => showsEmail(page, email)))
const after = JSON.parse(cookieStorage(writable()).getItem('session'))
assert.notEqual(after.refresh_token, before.refresh_token)
assert.match(await act(signInWithGitHub), /\/authorize\?provider=github&redirect_to=.*&code_challenge=/)

// A token for another issuer, a changed one, and one of another application, whose server may send it as a cookie.
process.env.TOKEN_ISSUER = 'https://other.example.com'
assert.equal(await currentClaims(readable(jar)), null)
process.env.TOKEN_ISSUER = AUTHSERVER_URL
assert.equal((await currentClaims(readable(jar))).email, email)
const [head, payload, signature] = after.access_token.split('.')
const changed = { ...JSON.parse(Buffer.from(payload, 'base64url')), email: 'eve@example.com' }
const encode = (claims) => Buffer.from(JSON.stringify(claims)).toString('base64url')
const forged = [head, encode(changed), signature].join('.')
const ofOther = `${head}.${encode({ ...JSON.parse(Buffer.from(payload, 'base64url')), client_id: 'other' })}`
const key = createPrivateKey({ key: JSON.parse(process.env.SIGNING_KEY), format: 'jwk' })
const foreign = `${ofOther}.${sign('sha256', ofOther, key).toString('base64url')}`
for (const token of [forged, foreign]) {
  cookieStorage(writable()).setItem('session', JSON.stringify({ ...after, access_token: token }))
  assert.equal(await open('/account', Account), '/sign-in')
}
cookieStorage(writable()).setItem('session', JSON.stringify(after))

// An API receives the token of the user.
const api = createServer((request, response) => {
  response.writeHead(Number(new URL(request.url, APP_URL).searchParams.get('status') ?? 200))
  response.end(request.headers.authorization)
}).listen(0, '127.0.0.1')
await new Promise((resolve) => api.once('listening', resolve))
process.env.API_URL = `http://127.0.0.1:${api.address().port}`
const answered = await current.run(readable(jar), () => callApi('/notes'))
assert.equal(await answered.text(), `Bearer ${await accessToken(readable(jar))}`)

// The user signs out on another device.
const elsewhere = new AuthClient({ url: AUTHSERVER_URL, autoRefreshToken: false })
await elsewhere.signInWithPassword({ email, password: PASSWORD })
await elsewhere.signOut({ scope: 'global' })
assert.ok(showsEmail(await open('/account', Account), email))
assert.equal((await authClient(writable()).getUser()).error.name, 'AuthSessionMissingError')
assert.ok(!jar.has('session.0'))
cookieStorage(writable()).setItem('session', JSON.stringify({ ...after, expires_at: 1 }))
assert.equal(await open('/account', Account), `${APP_URL}/sign-in`)
assert.ok(!jar.has('session.0'))

// Values of each length and alphabet.
jar.clear()
const storage = cookieStorage(writable())
for (const value of ['ä'.repeat(9000), '{"short":"ü"}', '']) {
  storage.setItem('key', value)
  assert.equal(storage.getItem('key') ?? '', value)
}
assert.deepEqual(cookieNames(), [])

// The store of the React application.
const { auth, authorizedFetch, sessionStore } = await load('src/auth.js')
let changes = 0
const unsubscribe = sessionStore.subscribe(() => changes++)
await auth.signInWithPassword({ email, password: PASSWORD })
assert.equal(sessionStore.getSnapshot().user.email, email)
const sent = await (await authorizedFetch(`${process.env.API_URL}/notes`)).text()
assert.equal(sent, `Bearer ${sessionStore.getSnapshot().access_token}`)
assert.equal((await authorizedFetch(`${process.env.API_URL}/notes?status=401`)).status, 401)
assert.equal(sessionStore.getSnapshot().user.email, email)
await elsewhere.signInWithPassword({ email, password: PASSWORD })
await elsewhere.signOut({ scope: 'global' })
await authorizedFetch(`${process.env.API_URL}/notes?status=401`)
assert.equal(sessionStore.getSnapshot(), null)
assert.ok(changes >= 2)
unsubscribe()
await assert.rejects(authorizedFetch(`${process.env.API_URL}/notes`), /not signed in/)
await auth.stopAutoRefresh()

// @supabase/ssr behind a proxy that removes its prefix.
const paths = []
const prefixed = createServer((incoming, response) => {
  paths.push(incoming.url)
  const { hostname, port } = new URL(AUTHSERVER_URL)
  const { method, headers, url } = incoming
  const path = url.replace(/^\/auth\/v1(\/.*)$/, '$1')
  incoming.pipe(
    forward({ hostname, port, method, headers, path }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers)
      answer.pipe(response)
    }),
  )
}).listen(Number(process.env.PREFIXED_PORT), '127.0.0.1')
await new Promise((resolve) => prefixed.once('listening', resolve))
const { supabaseClient } = await load('supabase.js')
const supabaseCookies = new Map()
const supabaseJar = { ...readable(supabaseCookies), set: (name, value) => supabaseCookies.set(name, value) }
assert.equal((await supabaseClient(supabaseJar).auth.signInWithPassword({ email, password: PASSWORD })).error, null)
supabaseJar.getAll = readable(supabaseCookies).getAll
assert.equal((await supabaseClient(supabaseJar).auth.getClaims()).data.claims.email, email)
assert.ok(paths.every((path) => path.startsWith('/auth/v1/')))
process.exit()
