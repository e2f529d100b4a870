// Application scenarios with @supabase/auth-js. Each line of the standard input names one; the answer to it is a line of
// JSON: null if the scenario passes, the error otherwise.
// AUTH_URL is the service; EMAILS_URL returns {link, code} for ?to=ADDRESS&number=1; ADMIN_TOKEN is an admin token.
// ETHEREUM_MESSAGE and ETHEREUM_SIGNATURE are those of a wallet for https://app.example.com. ETHEREUM_WALLET is the URL of another wallet.
// PROVIDER_URL is a Keycloak that accepts any user; APP_ID is its client for an application at APP_ADDRESS.

import assert from 'node:assert/strict'
import { createHash, createHmac, generateKeyPairSync, randomUUID, sign } from 'node:crypto'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'

import { AuthClient } from '@supabase/auth-js'

const { ADMIN_TOKEN, APP_ADDRESS, APP_ID, AUTH_URL, EMAILS_URL, PROVIDER_URL } = process.env
const { ETHEREUM_MESSAGE, ETHEREUM_SIGNATURE, ETHEREUM_WALLET } = process.env
const PASSWORD = 'correct horse 1'
const scenarios = new Map()
const scenario = (name, run) => scenarios.set(name, run)

class Memory {
  items = new Map()
  getItem = (key) => this.items.get(key) ?? null
  setItem = (key, value) => void this.items.set(key, value)
  removeItem = (key) => void this.items.delete(key)
}

// A client with separate storage, like a browser tab; `calls` are its requests, such as "GET /user".
function open({ flowType = 'implicit' } = {}) {
  const calls = []
  const client = new AuthClient({
    url: AUTH_URL,
    flowType,
    // Clients with the same key share the cached keys of the server.
    storageKey: randomUUID(),
    storage: new Memory(),
    autoRefreshToken: false,
    fetch: (url, options) => {
      calls.push(`${options.method} ${new URL(url).pathname}`)
      return fetch(url, options)
    },
  })
  return Object.assign(client, { calls })
}

const newAddress = () => `u-${randomUUID()}@example.com`

async function receivedEmail(to, number = 1) {
  const answer = await fetch(`${EMAILS_URL}?${new URLSearchParams({ to, number })}`)
  assert.equal(answer.status, 200, await answer.clone().text())
  return answer.json()
}

async function follow(link) {
  const answer = await fetch(link, { redirect: 'manual' })
  assert.equal(answer.status, 303)
  return new URL(answer.headers.get('location'))
}

const fragment = (url) => Object.fromEntries(new URLSearchParams(url.hash.slice(1)))

function good({ data, error }) {
  assert.equal(error, null)
  return data
}

async function confirmed() {
  const email = newAddress()
  const client = open()
  good(await client.signUp({ email, password: PASSWORD }))
  good(await client.verifyOtp({ email, type: 'signup', token: (await receivedEmail(email)).code }))
  return { client, email }
}

const administrator = () => new AuthClient({ url: AUTH_URL, headers: { Authorization: `Bearer ${ADMIN_TOKEN}` } }).admin

async function signedIn(email) {
  const client = open()
  good(await client.signInWithPassword({ email, password: PASSWORD }))
  return client
}

async function assertSignedOut(client, jwt) {
  const { error } = await client.getUser(jwt)
  assert.equal(error?.name, 'AuthSessionMissingError')
}

scenario('sign up and confirm by link', async () => {
  const email = newAddress()
  const client = open()
  const made = good(
    await client.signUp({
      email,
      password: PASSWORD,
      options: { data: { name: 'Ada' }, emailRedirectTo: 'https://app.example.com/welcome?tab=1' },
    }),
  )
  assert.equal(made.session, null)
  assert.equal(made.user.email, email)
  assert.deepEqual(made.user.user_metadata.name, 'Ada')

  const landed = await follow((await receivedEmail(email)).link)
  assert.equal(landed.origin + landed.pathname + landed.search, 'https://app.example.com/welcome?tab=1')
  const { access_token, refresh_token, expires_in, token_type, type } = fragment(landed)
  assert.deepEqual([expires_in, token_type, type], ['3600', 'bearer', 'signup'])

  const { session, user } = good(await client.setSession({ access_token, refresh_token }))
  assert.equal(session.access_token, access_token)
  assert.equal(user.id, made.user.id)
  assert.ok(user.email_confirmed_at)
  assert.equal(user.identities[0].identity_data.email, email)
})

scenario('sign up and confirm by code', async () => {
  const email = newAddress()
  const client = open()
  const events = []
  client.onAuthStateChange((event) => void events.push(event))
  good(await client.signUp({ email, password: PASSWORD }))
  const { session, user } = good(
    await client.verifyOtp({ email, type: 'email', token: (await receivedEmail(email)).code }),
  )
  assert.equal(user.email, email)
  assert.equal(session.user.id, user.id)
  assert.equal((await client.getSession()).data.session.access_token, session.access_token)
  assert.ok(events.includes('SIGNED_IN'))
})

scenario('sign up with PKCE', async () => {
  const email = newAddress()
  const client = open({ flowType: 'pkce' })
  const emailRedirectTo = 'https://app.example.com/welcome?tab=1'
  good(await client.signUp({ email, password: PASSWORD, options: { emailRedirectTo } }))
  const landed = await follow((await receivedEmail(email)).link)
  assert.equal(landed.hash, '')
  assert.equal(landed.searchParams.get('tab'), '1')
  const code = landed.searchParams.get('code')
  assert.ok(code)

  const stranger = open({ flowType: 'pkce' })
  assert.equal((await stranger.exchangeCodeForSession(code)).error.code, 'pkce_code_verifier_not_found')
  const { session } = good(await client.exchangeCodeForSession(code))
  assert.equal(session.user.email, email)
  assert.equal((await client.getUser()).data.user.email, email)
})

scenario('sign in and read the user', async () => {
  const { email } = await confirmed()
  const client = open()
  const signed = good(await client.signInWithPassword({ email, password: PASSWORD }))
  assert.equal(signed.session.expires_in, 3600)
  assert.equal(signed.weakPassword ?? null, null)
  const { user } = good(await client.getUser())
  assert.equal(user.id, signed.user.id)
  assert.equal(user.aud, 'authenticated')
  assert.deepEqual(user.app_metadata, { provider: 'email', providers: ['email'] })
})

scenario('refresh the session', async () => {
  const { client } = await confirmed()
  const before = (await client.getSession()).data.session
  const { session } = good(await client.refreshSession())
  assert.notEqual(session.refresh_token, before.refresh_token)
  assert.equal(session.user.id, before.user.id)
  good(await client.getUser())
  // A second tab with the old token gets the same new token.
  const late = open()
  const again = good(await late.refreshSession({ refresh_token: before.refresh_token }))
  assert.equal(again.session.refresh_token, session.refresh_token)
})

scenario('get claims without a user request', async () => {
  const { client } = await confirmed()
  const { user } = (await client.getSession()).data.session
  client.calls.length = 0
  const { claims, header } = good(await client.getClaims())
  assert.equal(header.alg, 'RS256')
  assert.equal(claims.sub, user.id)
  assert.equal(claims.iss, AUTH_URL)
  assert.equal(claims.aal, 'aal1')
  assert.equal(claims.amr[0].method, 'otp')
  assert.deepEqual(client.calls, ['GET /.well-known/jwks.json'])
  good(await client.getClaims())
  assert.equal(client.calls.length, 1)

  const { access_token } = (await client.getSession()).data.session
  const [head, , signature] = access_token.split('.')
  const forged = Buffer.from(JSON.stringify({ ...claims, role: 'service_role' })).toString('base64url')
  const { error } = await client.getClaims(`${head}.${forged}.${signature}`)
  assert.equal(error.message, 'Invalid JWT signature')
})

scenario('sign out everywhere', async () => {
  const { client, email } = await confirmed()
  const other = await signedIn(email)
  const { access_token } = (await client.getSession()).data.session
  assert.equal((await client.signOut()).error, null)
  assert.equal((await client.getSession()).data.session, null)
  await assertSignedOut(client, access_token)
  await assertSignedOut(other)
})

scenario('sign out this session only', async () => {
  const { client, email } = await confirmed()
  const other = await signedIn(email)
  const { access_token } = (await client.getSession()).data.session
  assert.equal((await client.signOut({ scope: 'local' })).error, null)
  await assertSignedOut(client, access_token)
  good(await other.getUser())
})

scenario('sign out other sessions', async () => {
  const { client, email } = await confirmed()
  const other = await signedIn(email)
  const { refresh_token } = (await other.getSession()).data.session
  assert.equal((await client.signOut({ scope: 'others' })).error, null)
  good(await client.getUser())
  await assertSignedOut(other)
  const { error } = await open().refreshSession({ refresh_token })
  assert.deepEqual([error.status, error.code], [400, 'refresh_token_not_found'])
})

scenario('sign out twice', async () => {
  const { client } = await confirmed()
  const { access_token } = (await client.getSession()).data.session
  assert.equal((await client.signOut()).error, null)
  assert.equal((await client.admin.signOut(access_token)).error.name, 'AuthSessionMissingError')
  assert.equal((await client.signOut()).error, null)
})

scenario('errors have a code and a status', async () => {
  const { client, email } = await confirmed()
  const unconfirmed = newAddress()
  good(await open().signUp({ email: unconfirmed, password: PASSWORD }))
  const refusals = [
    [await client.signInWithPassword({ email, password: 'wrong' }), 400, 'invalid_credentials'],
    [await client.signInWithPassword({ email: unconfirmed, password: PASSWORD }), 400, 'email_not_confirmed'],
    [await client.verifyOtp({ email, type: 'email', token: '000000' }), 403, 'otp_expired'],
    [await client.signUp({ email: 'nonsense', password: PASSWORD }), 400, 'validation_failed'],
    [await client.getUser('nonsense'), 403, 'bad_jwt'],
    [await open().refreshSession({ refresh_token: 'aaaaaaaaaaaa' }), 400, 'refresh_token_not_found'],
    [
      await client.signInWithOtp({ email: newAddress(), options: { shouldCreateUser: false } }),
      422,
      'otp_disabled',
    ],
  ]
  for (const [{ error }, status, code] of refusals) {
    assert.deepEqual([error?.name, error?.status, error?.code], ['AuthApiError', status, code])
    assert.ok(error.message)
  }
})

scenario('weak password is rejected with reasons', async () => {
  const { data, error } = await open().signUp({ email: newAddress(), password: 'abc' })
  assert.equal(data.user, null)
  assert.deepEqual([error.name, error.status, error.code], ['AuthWeakPasswordError', 422, 'weak_password'])
  assert.deepEqual(error.reasons, ['length', 'characters'])
})

scenario('second email is rate-limited', async () => {
  const email = newAddress()
  good(await open().resetPasswordForEmail(email))
  const { error } = await open().resetPasswordForEmail(email)
  assert.deepEqual([error.status, error.code], [429, 'over_email_send_rate_limit'])
})

scenario('recover by link', async () => {
  const { email } = await confirmed()
  const client = open()
  good(await client.resetPasswordForEmail(email, { redirectTo: 'https://app.example.com/reset' }))
  const landed = await follow((await receivedEmail(email, 2)).link)
  const { access_token, refresh_token, type } = fragment(landed)
  assert.deepEqual([landed.pathname, type], ['/reset', 'recovery'])
  const { user } = good(await client.setSession({ access_token, refresh_token }))
  assert.equal(user.email, email)
})

scenario('recover with PKCE', async () => {
  const { email } = await confirmed()
  const client = open({ flowType: 'pkce' })
  const events = []
  client.onAuthStateChange((event) => void events.push(event))
  good(await client.resetPasswordForEmail(email))
  const landed = await follow((await receivedEmail(email, 2)).link)
  const { session } = good(await client.exchangeCodeForSession(landed.searchParams.get('code')))
  assert.equal(session.user.email, email)
  await sleep(50)
  assert.ok(events.includes('PASSWORD_RECOVERY'), events.join())
})

scenario('recover by code', async () => {
  const { email } = await confirmed()
  const client = open()
  good(await client.resetPasswordForEmail(email))
  const { user } = good(
    await client.verifyOtp({ email, type: 'recovery', token: (await receivedEmail(email, 2)).code }),
  )
  assert.equal(user.email, email)
})

scenario('sign in by magic link', async () => {
  const { email } = await confirmed()
  const client = open({ flowType: 'pkce' })
  good(await client.signInWithOtp({ email, options: { emailRedirectTo: 'https://app.example.com/in' } }))
  const landed = await follow((await receivedEmail(email, 2)).link)
  assert.equal(landed.pathname, '/in')
  const { session } = good(await client.exchangeCodeForSession(landed.searchParams.get('code')))
  assert.equal(session.user.email, email)
})

scenario('sign up by one-time code', async () => {
  const email = newAddress()
  const client = open()
  const asked = good(await client.signInWithOtp({ email, options: { data: { plan: 'free' } } }))
  assert.deepEqual(asked, { user: null, session: null })
  const { user } = good(await client.verifyOtp({ email, type: 'email', token: (await receivedEmail(email)).code }))
  assert.equal(user.user_metadata.plan, 'free')
})

scenario('verify by the hash in the link', async () => {
  const email = newAddress()
  const client = open()
  good(await client.signUp({ email, password: PASSWORD }))
  const token_hash = new URL((await receivedEmail(email)).link).searchParams.get('token')
  assert.equal(good(await client.verifyOtp({ token_hash, type: 'email' })).user.email, email)
})

scenario('resend the confirmation', async () => {
  const email = newAddress()
  const client = open()
  good(await client.signUp({ email, password: PASSWORD }))
  const first = await receivedEmail(email)
  await sleep(2100)
  good(await client.resend({ type: 'signup', email }))
  const second = await receivedEmail(email, 2)
  const stale = await follow(first.link)
  assert.equal(fragment(stale).error_code, 'otp_expired')
  good(await client.verifyOtp({ email, type: 'signup', token: second.code }))
})

scenario('change the metadata', async () => {
  const { client } = await confirmed()
  const events = []
  client.onAuthStateChange((event) => void events.push(event))
  good(await client.updateUser({ data: { name: 'Ada', plan: 'free' } }))
  const { user } = good(await client.updateUser({ data: { plan: null } }))
  assert.equal(user.user_metadata.name, 'Ada')
  assert.equal('plan' in user.user_metadata, false)
  assert.ok(events.includes('USER_UPDATED'), events.join())
  assert.deepEqual((await client.getSession()).data.session.user.user_metadata, user.user_metadata)
})

scenario('change the password', async () => {
  const { client, email } = await confirmed()
  const other = await signedIn(email)
  const { error } = await client.updateUser({ password: PASSWORD })
  assert.deepEqual([error.status, error.code], [422, 'same_password'])
  const password = 'another horse 2'
  good(await client.updateUser({ password }))
  good(await client.getUser())
  await assertSignedOut(other)
  assert.equal((await open().signInWithPassword({ email, password: PASSWORD })).error.code, 'invalid_credentials')
  good(await open().signInWithPassword({ email, password }))
})

scenario('reauthenticate', async () => {
  const { client, email } = await confirmed()
  good(await client.reauthenticate())
  const { link, code } = await receivedEmail(email, 2)
  assert.equal(link, '')
  const refused = await client.reauthenticate()
  assert.equal(refused.error.code, 'over_email_send_rate_limit')
  good(await client.updateUser({ password: 'another horse 2', nonce: code }))
})

scenario('change email by codes', async () => {
  const { client, email } = await confirmed()
  const wanted = newAddress()
  const asked = good(await client.updateUser({ email: wanted }))
  assert.deepEqual([asked.user.email, asked.user.new_email], [email, wanted])
  const first = good(
    await client.verifyOtp({ email: wanted, type: 'email_change', token: (await receivedEmail(wanted)).code }),
  )
  assert.equal(first.session, null)
  const { user, session } = good(
    await client.verifyOtp({ email, type: 'email_change', token: (await receivedEmail(email, 2)).code }),
  )
  assert.deepEqual([user.email, user.new_email], [wanted, undefined])
  assert.equal((await client.getSession()).data.session.access_token, session.access_token)
  good(await open().signInWithPassword({ email: wanted, password: PASSWORD }))
})

scenario('change email by links with PKCE', async () => {
  const { email } = await confirmed()
  const client = open({ flowType: 'pkce' })
  good(await client.signInWithPassword({ email, password: PASSWORD }))
  const wanted = newAddress()
  good(await client.updateUser({ email: wanted }, { emailRedirectTo: 'https://app.example.com/me' }))
  const half = await follow((await receivedEmail(email, 2)).link)
  assert.ok(half.searchParams.get('message').startsWith('Confirmation link accepted.'))
  const landed = await follow((await receivedEmail(wanted)).link)
  assert.equal(landed.pathname, '/me')
  const { session } = good(await client.exchangeCodeForSession(landed.searchParams.get('code')))
  assert.equal(session.user.email, wanted)
})

scenario('change to taken email is rejected', async () => {
  const { email } = await confirmed()
  const { client } = await confirmed()
  const { error } = await client.updateUser({ email })
  assert.deepEqual([error.status, error.code], [422, 'email_exists'])
})

scenario('resend email change', async () => {
  const { client, email } = await confirmed()
  const wanted = newAddress()
  good(await client.updateUser({ email: wanted }))
  const stale = await receivedEmail(wanted)
  await sleep(2100)
  good(await client.resend({ type: 'email_change', email }))
  const fresh = await receivedEmail(wanted, 2)
  const token_hash = (link) => new URL(link).searchParams.get('token')
  const refused = await client.verifyOtp({ type: 'email_change', token_hash: token_hash(stale.link) })
  assert.equal(refused.error.code, 'otp_expired')
  good(await client.verifyOtp({ type: 'email_change', token_hash: token_hash(fresh.link) }))
})

// Phone numbers with a fixed code; each scenario uses a different one.
const CODE = '123456'
const number = (index) => `+1555000${1000 + index}`

scenario('sign up by phone', async () => {
  const phone = number(0)
  const client = open()
  const made = good(await client.signUp({ phone, password: PASSWORD }))
  assert.deepEqual([made.session, made.user.phone], [null, phone.slice(1)])
  const early = await open().signInWithPassword({ phone, password: PASSWORD })
  assert.equal(early.error.code, 'phone_not_confirmed')
  const { user, session } = good(await client.verifyOtp({ phone, type: 'sms', token: CODE }))
  assert.equal(session.user.id, user.id)
  assert.ok(user.phone_confirmed_at)
  good(await open().signInWithPassword({ phone, password: PASSWORD }))
})

scenario('sign in by SMS code', async () => {
  const phone = number(1)
  const client = open()
  const asked = good(await client.signInWithOtp({ phone, options: { data: { plan: 'free' } } }))
  assert.equal(asked.messageId, 'test-otp')
  const wrong = await client.verifyOtp({ phone, type: 'sms', token: '000000' })
  assert.deepEqual([wrong.error.status, wrong.error.code], [403, 'otp_expired'])
  const { user } = good(await client.verifyOtp({ phone, type: 'sms', token: CODE }))
  assert.equal(user.user_metadata.plan, 'free')
  const soon = await open().signInWithOtp({ phone: number(2) })
  assert.equal(soon.error, null)
  const again = await open().signInWithOtp({ phone: number(2) })
  assert.deepEqual([again.error.status, again.error.code], [429, 'over_sms_send_rate_limit'])
})

scenario('resend SMS code', async () => {
  const phone = number(3)
  const client = open()
  good(await client.signUp({ phone, password: PASSWORD }))
  await sleep(1100)
  const { messageId } = good(await client.resend({ type: 'sms', phone }))
  assert.equal(messageId, 'test-otp')
  good(await client.verifyOtp({ phone, type: 'sms', token: CODE }))
})

scenario('change phone', async () => {
  const phone = number(4)
  const { client, email } = await confirmed()
  const asked = good(await client.updateUser({ phone }))
  assert.equal(asked.user.new_phone, phone.slice(1))
  const { user } = good(await client.verifyOtp({ phone, type: 'phone_change', token: CODE }))
  assert.deepEqual([user.email, user.phone], [email, phone.slice(1)])
  assert.deepEqual(user.app_metadata.providers, ['email', 'phone'])
})

scenario('convert anonymous user', async () => {
  const client = open()
  const anonymousUser = good(await client.signInAnonymously({ options: { data: { theme: 'dark' } } })).user
  assert.equal(anonymousUser.is_anonymous, true)
  const email = newAddress()
  good(await client.updateUser({ email, password: PASSWORD }))
  const { user } = good(
    await client.verifyOtp({ email, type: 'email_change', token: (await receivedEmail(email)).code }),
  )
  assert.deepEqual([user.id, user.is_anonymous, user.user_metadata.theme], [anonymousUser.id, false, 'dark'])
  const { claims } = good(await client.getClaims())
  assert.equal(claims.is_anonymous, false)
  good(await open().signInWithPassword({ email, password: PASSWORD }))
})

scenario('accept an invitation by link and choose a password', async () => {
  const email = newAddress()
  const redirectTo = 'https://app.example.com/welcome'
  const invited = good(
    await administrator().inviteUserByEmail(email, { data: { team: 'red' }, redirectTo }),
  ).user
  assert.ok(invited.invited_at)
  assert.deepEqual(invited.user_metadata, { team: 'red' })
  const target = await follow((await receivedEmail(email)).link)
  assert.equal(`${target.origin}${target.pathname}`, redirectTo)
  const { access_token, refresh_token, type } = fragment(target)
  assert.equal(type, 'invite')
  const client = open()
  good(await client.setSession({ access_token, refresh_token }))
  good(await client.updateUser({ password: PASSWORD }))
  await signedIn(email)
  const again = await administrator().inviteUserByEmail(email)
  assert.deepEqual([again.error.status, again.error.code], [422, 'email_exists'])
})

scenario('accept an invitation by code', async () => {
  const email = newAddress()
  good(await administrator().inviteUserByEmail(email))
  const { user } = good(await open().verifyOtp({ email, type: 'invite', token: (await receivedEmail(email)).code }))
  assert.equal(user.email, email)
})

scenario('generate a link of every type', async () => {
  const email = newAddress()
  const wanted = newAddress()
  const redirectTo = 'https://app.example.com/landing'
  const options = { redirectTo }
  for (const [asked, expected] of [
    [{ type: 'signup', email, password: PASSWORD, options: { ...options, data: { a: 1 } } }, 'signup'],
    [{ type: 'magiclink', email, options }, 'magiclink'],
    [{ type: 'recovery', email, options }, 'recovery'],
  ]) {
    const { properties, user } = good(await administrator().generateLink(asked))
    assert.equal(user.email, email)
    assert.equal(properties.verification_type, asked.type)
    assert.equal(new URL(properties.action_link).searchParams.get('token'), properties.hashed_token)
    const target = await follow(properties.action_link)
    assert.equal(`${target.origin}${target.pathname}`, redirectTo)
    assert.equal(fragment(target).type, expected)
  }
  await signedIn(email)
  const links = []
  for (const type of ['email_change_current', 'email_change_new']) {
    const { properties, user } = good(await administrator().generateLink({ type, email, newEmail: wanted, options }))
    assert.deepEqual([properties.verification_type, user.new_email], [type, wanted])
    links.push(properties.action_link)
  }
  assert.match(fragment(await follow(links[0])).message, /other email/)
  assert.equal(fragment(await follow(links[1])).type, 'email_change')
  await signedIn(wanted)
  const invited = newAddress()
  const { properties } = good(await administrator().generateLink({ type: 'invite', email: invited, options }))
  assert.equal((await receivedEmail(invited)).link, properties.action_link)
  const { user } = good(await open().verifyOtp({ type: 'invite', token_hash: properties.hashed_token }))
  assert.equal(user.email, invited)
})

scenario('generating links requires an administrator', async () => {
  const { client, email } = await confirmed()
  const { session } = good(await client.getSession())
  const userClient = new AuthClient({ url: AUTH_URL, headers: { Authorization: `Bearer ${session.access_token}` } }).admin
  for (const { error } of [
    await userClient.inviteUserByEmail(newAddress()),
    await userClient.generateLink({ type: 'magiclink', email }),
  ]) assert.deepEqual([error.status, error.code], [403, 'not_admin'])
  const { error } = await administrator().generateLink({ type: 'recovery', email: newAddress() })
  assert.deepEqual([error.status, error.code], [404, 'user_not_found'])
})

scenario('manage users as administrator', async () => {
  const admin = administrator()
  const email = newAddress()
  const { user } = good(
    await admin.createUser({ email, password: PASSWORD, email_confirm: true, user_metadata: { a: 1 }, app_metadata: { plan: 'pro' } }),
  )
  assert.deepEqual([user.email, user.user_metadata.a, user.app_metadata.plan], [email, 1, 'pro'])
  const client = await signedIn(email)
  assert.equal(good(await admin.getUserById(user.id)).user.email, email)
  const wanted = newAddress()
  const changed = good(
    await admin.updateUserById(user.id, { email: wanted, user_metadata: { a: null, b: 2 }, ban_duration: '1h' }),
  ).user
  assert.deepEqual([changed.email, changed.user_metadata.a, changed.user_metadata.b], [wanted, undefined, 2])
  assert.ok(changed.banned_until)
  assert.equal((await client.getUser()).error.code, 'user_banned')
  assert.equal(good(await admin.updateUserById(user.id, { ban_duration: 'none' })).user.banned_until, undefined)
  assert.deepEqual(good(await admin.mfa.listFactors({ userId: user.id })).factors, [])
  const unknown = await admin.mfa.deleteFactor({ userId: user.id, id: randomUUID() })
  assert.deepEqual([unknown.error.status, unknown.error.code], [404, 'mfa_factor_not_found'])
  const jwt = good(await client.getSession()).session.access_token
  good(await admin.signOut(jwt, 'global'))
  assert.equal((await admin.signOut(jwt, 'global')).error.name, 'AuthSessionMissingError')
  good(await admin.deleteUser(user.id, true))
  const emptied = good(await admin.getUserById(user.id)).user
  assert.ok(emptied.deleted_at)
  assert.notEqual(emptied.email, wanted)
  good(await admin.deleteUser(user.id))
  const gone = await admin.getUserById(user.id)
  assert.deepEqual([gone.error.status, gone.error.code], [404, 'user_not_found'])
})

scenario('page through the list of users', async () => {
  const admin = administrator()
  for (let number = 0; number < 3; number++) good(await admin.createUser({ email: newAddress() }))
  const all = good(await admin.listUsers())
  assert.equal(all.aud, 'authenticated')
  assert.ok(all.total >= 3)
  const seen = []
  for (let page = 1; page; ) {
    const found = good(await admin.listUsers({ page, perPage: Math.ceil(all.total / 4) }))
    seen.push(...found.users.map(({ id }) => id))
    assert.equal(found.total, all.total)
    page = found.nextPage
  }
  assert.equal(new Set(seen).size, all.total)
})

scenario('listing users requires an administrator', async () => {
  const { client } = await confirmed()
  const { session } = good(await client.getSession())
  const userClient = new AuthClient({ url: AUTH_URL, headers: { Authorization: `Bearer ${session.access_token}` } }).admin
  const { error } = await userClient.listUsers()
  assert.deepEqual([error.status, error.code], [403, 'not_admin'])
})

const THERE = { provider: 'keycloak', options: { redirectTo: 'https://app.example.com/in?tab=1', scopes: 'openid' } }
const newName = () => `p${randomUUID().slice(0, 8)}`

// Follows redirects like a browser, signs in at the provider with that name, and returns the application's URL.
async function visit(link, name) {
  const cookies = new Map()
  let url = new URL(link)
  let form = null
  while (url.origin !== 'https://app.example.com') {
    const cookie = [...cookies].map((pair) => pair.join('=')).join('; ')
    const answer = await fetch(url, { method: form ? 'POST' : 'GET', body: form, headers: { cookie }, redirect: 'manual' })
    for (const set of answer.headers.getSetCookie()) cookies.set(...set.split(';')[0].split(/=(.*)/s).slice(0, 2))
    const page = await answer.text()
    const location = answer.headers.get('location')
    if (location) {
      form = null
      url = new URL(location, url)
    } else {
      assert.equal(answer.status, 200, page)
      const prompt = page.match(/name="prompt" value="(\w+)"/)[1]
      form = new URLSearchParams(prompt === 'login' ? { prompt, login: name, password: 'any' } : { prompt })
    }
  }
  return url
}

// A mobile application that signs a user in at the provider directly.
async function idToken(name, nonce) {
  const verifier = randomUUID() + randomUUID()
  const asked = new URLSearchParams({
    client_id: APP_ID,
    redirect_uri: APP_ADDRESS,
    response_type: 'code',
    scope: 'openid email profile',
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
    code_challenge_method: 'S256',
    nonce: createHash('sha256').update(nonce).digest('hex'),
  })
  const landed = await visit(`${PROVIDER_URL}/protocol/openid-connect/auth?${asked}`, name)
  const answer = await fetch(`${PROVIDER_URL}/protocol/openid-connect/token`, {
    method: 'POST',
    body: new URLSearchParams({
      grant_type: 'authorization_code',
      client_id: APP_ID,
      code: landed.searchParams.get('code'),
      code_verifier: verifier,
      redirect_uri: APP_ADDRESS,
    }),
  })
  const { access_token, id_token } = await answer.json()
  return { provider: 'keycloak', token: id_token, access_token, nonce }
}

scenario('sign in with a provider', async () => {
  const name = newName()
  const client = open()
  const landed = await visit(good(await client.signInWithOAuth(THERE)).url, name)
  assert.equal(landed.search, '?tab=1')
  const { access_token, provider, provider_token, refresh_token } = fragment(landed)
  assert.equal(provider, 'keycloak')
  assert.ok(provider_token)
  const { user } = good(await client.setSession({ access_token, refresh_token }))
  assert.equal(user.email, `${name}@example.com`)
  assert.deepEqual(user.app_metadata, { provider: 'keycloak', providers: ['keycloak'] })

  const again = open()
  const tokens = fragment(await visit(good(await again.signInWithOAuth(THERE)).url, name))
  assert.equal(good(await again.setSession(tokens)).user.id, user.id)
})

scenario('sign in with a provider and PKCE', async () => {
  const name = newName()
  const client = open({ flowType: 'pkce' })
  const landed = await visit(good(await client.signInWithOAuth(THERE)).url, name)
  assert.equal(landed.hash, '')
  const code = landed.searchParams.get('code')
  assert.equal((await open({ flowType: 'pkce' }).exchangeCodeForSession(code)).error.code, 'pkce_code_verifier_not_found')
  const { session } = good(await client.exchangeCodeForSession(code))
  assert.equal(session.user.email, `${name}@example.com`)
  assert.ok(session.provider_token)
})

scenario('unknown provider is rejected', async () => {
  const { url } = good(await open().signInWithOAuth({ provider: 'nobody' }))
  const answer = await fetch(url, { redirect: 'manual' })
  const { error_code, msg } = await answer.json()
  assert.deepEqual([answer.status, error_code], [400, 'validation_failed'])
  assert.equal(msg, 'Unsupported provider: Provider nobody could not be found')
})

scenario('sign in with an ID token', async () => {
  const name = newName()
  const client = open()
  const { session, user } = good(await client.signInWithIdToken(await idToken(name, 'once')))
  assert.equal(user.email, `${name}@example.com`)
  assert.equal(session.user.identities[0].provider, 'keycloak')

  const stolen = { ...(await idToken(name, 'once')), nonce: 'another' }
  assert.equal((await open().signInWithIdToken(stolen)).error.status, 400)
})

scenario('link identities and unlink them', async () => {
  const name = newName()
  const { client, email } = await confirmed()
  const { url } = good(await client.linkIdentity(THERE))
  const { access_token, refresh_token } = fragment(await visit(url, name))
  good(await client.setSession({ access_token, refresh_token }))
  const { identities } = good(await client.getUserIdentities())
  assert.deepEqual(identities.map(({ provider }) => provider).sort(), ['email', 'keycloak'])

  const there = await visit(good(await open().signInWithOAuth(THERE)).url, name)
  const other = good(await open().setSession(fragment(there)))
  assert.equal(other.user.email, email)

  good(await client.unlinkIdentity(identities.find(({ provider }) => provider === 'keycloak')))
  const left = good(await client.getUserIdentities()).identities
  assert.deepEqual(left.map(({ provider }) => provider), ['email'])
  const last = await client.unlinkIdentity(left[0])
  assert.equal(last.error.code, 'single_identity_not_deletable')
})

scenario('link an identity by its ID token', async () => {
  const name = newName()
  const { client, email } = await confirmed()
  const { user } = good(await client.linkIdentity(await idToken(name, 'once')))
  assert.equal(user.email, email)
  assert.deepEqual(user.app_metadata.providers, ['email', 'keycloak'])

  const { error } = await (await confirmed()).client.linkIdentity(await idToken(name, 'twice'))
  assert.equal(error.code, 'identity_already_exists')
})

// TOTP code (RFC 6238), as an authenticator app shows it.
function appCode(secret, steps = 0) {
  const bits = [...secret].map((letter) => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.indexOf(letter).toString(2).padStart(5, '0'))
  const key = Buffer.from(bits.join('').match(/.{8}/g).map((byte) => parseInt(byte, 2)))
  const step = Buffer.alloc(8)
  step.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 30000) + steps))
  const digest = createHmac('sha1', key).update(step).digest()
  const number = digest.readUInt32BE(digest[19] & 15) & 0x7fffffff
  return String(number % 1e6).padStart(6, '0')
}

scenario('enrol, verify and unenrol an authenticator app', async () => {
  const { client, email } = await confirmed()
  const { totp, id, type } = good(await client.mfa.enroll({ factorType: 'totp', friendlyName: 'phone', issuer: 'My app' }))
  assert.equal(type, 'totp')
  assert.ok(totp.qr_code.startsWith('data:image/svg+xml;utf-8,<svg'))
  assert.equal(new URL(totp.uri).searchParams.get('secret'), totp.secret)
  assert.equal(new URL(totp.uri).searchParams.get('issuer'), 'My app')
  assert.deepEqual(good(await client.mfa.listFactors()).totp, [])
  assert.deepEqual(good(await client.mfa.listFactors()).all.map((factor) => factor.status), ['unverified'])
  const levels = async () => {
    const { currentLevel, nextLevel } = good(await client.mfa.getAuthenticatorAssuranceLevel())
    return [currentLevel, nextLevel]
  }
  assert.deepEqual(await levels(), ['aal1', 'aal1'])

  const challenge = good(await client.mfa.challenge({ factorId: id }))
  assert.ok(challenge.expires_at > Date.now() / 1000)
  const wrong = await client.mfa.verify({ factorId: id, challengeId: challenge.id, code: '12345' })
  assert.deepEqual([wrong.error.status, wrong.error.code], [422, 'mfa_verification_failed'])
  const verified = good(await client.mfa.verify({ factorId: id, challengeId: challenge.id, code: appCode(totp.secret) }))
  assert.equal(verified.user.factors[0].status, 'verified')
  assert.deepEqual(await levels(), ['aal2', 'aal2'])
  good(await client.refreshSession())
  assert.deepEqual(await levels(), ['aal2', 'aal2'])

  good(await client.signOut())
  good(await client.signInWithPassword({ email, password: PASSWORD }))
  assert.deepEqual(await levels(), ['aal1', 'aal2'])
  const early = await client.updateUser({ password: `${PASSWORD} new` })
  assert.deepEqual([early.error.status, early.error.code], [401, 'insufficient_aal'])
  const kept = await client.mfa.unenroll({ factorId: id })
  assert.deepEqual([kept.error.status, kept.error.code], [422, 'insufficient_aal'])
  good(await client.mfa.challengeAndVerify({ factorId: id, code: appCode(totp.secret) }))
  assert.deepEqual(await levels(), ['aal2', 'aal2'])
  const methods = good(await client.mfa.getAuthenticatorAssuranceLevel()).currentAuthenticationMethods
  assert.deepEqual(methods.map(({ method }) => method), ['totp', 'password'])
  good(await client.updateUser({ password: `${PASSWORD} new` }))
  assert.equal(good(await client.mfa.listFactors()).totp[0].id, id)

  assert.equal(good(await client.mfa.unenroll({ factorId: id })).id, id)
  good(await client.refreshSession())
  assert.deepEqual(await levels(), ['aal1', 'aal1'])
  assert.deepEqual(good(await client.mfa.listFactors()).all, [])
})

scenario('administrator removes a lost authenticator app', async () => {
  const { client, email } = await confirmed()
  const { totp, id } = good(await client.mfa.enroll({ factorType: 'totp' }))
  good(await client.mfa.challengeAndVerify({ factorId: id, code: appCode(totp.secret) }))
  const { user } = good(await client.getUser())
  const admin = administrator()
  const { factors } = good(await admin.mfa.listFactors({ userId: user.id }))
  assert.deepEqual(factors.map((factor) => factor.id), [id])
  // The client wraps this response once more than its types declare.
  const removed = good(await admin.mfa.deleteFactor({ userId: user.id, id }))
  assert.equal((removed.data ?? removed).id, id)
  const level = async () => good(await client.mfa.getAuthenticatorAssuranceLevel()).currentLevel
  good(await client.refreshSession())
  assert.equal(await level(), 'aal1')
  good(await client.signInWithPassword({ email, password: PASSWORD }))
  good(await client.mfa.enroll({ factorType: 'totp' }))
})

const CALLBACK = 'https://client.example.com/callback'

// The id of a new authorization request, and its PKCE verifier.
async function requestAuthorization(clientId, scope) {
  const verifier = `${randomUUID()}${randomUUID()}`
  const query = new URLSearchParams({
    client_id: clientId,
    redirect_uri: CALLBACK,
    response_type: 'code',
    scope,
    state: 'xyz',
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
    code_challenge_method: 'S256',
  })
  const answer = await fetch(`${AUTH_URL}/oauth/authorize?${query}`, { redirect: 'manual' })
  assert.equal(answer.status, 302)
  return { id: new URL(answer.headers.get('location')).searchParams.get('authorization_id'), verifier }
}

scenario('administrator manages OAuth clients', async () => {
  const { oauth } = administrator()
  const made = good(await oauth.createClient({ client_name: 'Shop', redirect_uris: [CALLBACK] }))
  assert.equal(made.client_secret.length, 43)
  assert.equal(made.client_type, 'confidential')
  assert.ok(good(await oauth.listClients()).clients.some(({ client_id }) => client_id === made.client_id))
  assert.equal(good(await oauth.getClient(made.client_id)).client_name, 'Shop')
  assert.equal(good(await oauth.updateClient(made.client_id, { client_name: 'Store' })).client_name, 'Store')
  const renewed = good(await oauth.regenerateClientSecret(made.client_id))
  assert.notEqual(renewed.client_secret, made.client_secret)
  assert.equal((await oauth.deleteClient(made.client_id)).error, null)
  assert.equal((await oauth.getClient(made.client_id)).error.code, 'oauth_client_not_found')
})

scenario('user grants, lists and revokes the access of an OAuth client', async () => {
  const metadata = { client_name: 'Shop', redirect_uris: [CALLBACK], token_endpoint_auth_method: 'none' }
  const { client_id } = good(await administrator().oauth.createClient(metadata))
  const { client, email } = await confirmed()
  const first = await requestAuthorization(client_id, 'openid email')
  const details = good(await client.oauth.getAuthorizationDetails(first.id))
  assert.deepEqual([details.client.name, details.user.email, details.scope], ['Shop', email, 'openid email'])
  const denied = good(await client.oauth.denyAuthorization(first.id, { skipBrowserRedirect: true }))
  assert.equal(new URL(denied.redirect_url).searchParams.get('error'), 'access_denied')

  const { id, verifier } = await requestAuthorization(client_id, 'openid email')
  good(await client.oauth.getAuthorizationDetails(id))
  const approved = good(await client.oauth.approveAuthorization(id, { skipBrowserRedirect: true }))
  const code = new URL(approved.redirect_url).searchParams.get('code')
  const body = new URLSearchParams({ grant_type: 'authorization_code', client_id, code, code_verifier: verifier })
  const tokens = await (await fetch(`${AUTH_URL}/oauth/token`, { method: 'POST', body })).json()
  assert.ok(tokens.id_token)
  const userinfo = (token) => fetch(`${AUTH_URL}/oauth/userinfo`, { headers: { Authorization: `Bearer ${token}` } })
  assert.equal((await (await userinfo(tokens.access_token)).json()).email, email)

  const grants = good(await client.oauth.listGrants())
  assert.deepEqual(grants.map((grant) => [grant.client.id, grant.scopes]), [[client_id, ['openid', 'email']]])
  assert.equal((await client.oauth.revokeGrant({ clientId: client_id })).error, null)
  assert.deepEqual(good(await client.oauth.listGrants()), [])
  assert.equal((await userinfo(tokens.access_token)).status, 403)
})

scenario('wallets', async () => {
  const message = ETHEREUM_MESSAGE, signature = ETHEREUM_SIGNATURE
  const first = good(await open().signInWithWeb3({ chain: 'ethereum', message, signature }))
  assert.match(first.user.identities[0].id, /^web3:ethereum:0x[0-9a-fA-F]{40}$/)
  const again = await open().signInWithWeb3({ chain: 'ethereum', message, signature })
  assert.equal(again.error.status, 400)

  const request = async (body) => (await fetch(ETHEREUM_WALLET, { method: 'POST', body: JSON.stringify(body) })).json()
  const ethereum = { chain: 'ethereum', wallet: { request }, statement: 'I sign in', options: { url: 'https://app.example.com/in' } }
  const signedIn = good(await open().signInWithWeb3(ethereum))
  assert.notEqual(signedIn.user.id, first.user.id)
  assert.equal(signedIn.user.identities[0].identity_data.custom_claims.chain, 'ethereum')

  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  const address = base58(publicKey.export({ format: 'der', type: 'spki' }).subarray(-32))
  const wallet = {
    publicKey: { toBase58: () => address },
    signMessage: async (bytes) => new Uint8Array(sign(null, bytes, privateKey)),
  }
  const client = open()
  const options = { url: 'https://app.example.com/in', signInWithSolana: { resources: ['https://app.example.com/terms'] } }
  good(await client.signInWithWeb3({ chain: 'solana', wallet, statement: 'I sign in', options }))
  const { user } = good(await client.getUser())
  assert.equal(user.identities[0].identity_data.custom_claims.address, address)
})

function base58(bytes) {
  const alphabet = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz'
  let number = BigInt(`0x${bytes.toString('hex')}`)
  let text = ''
  for (; number > 0n; number /= 58n) text = alphabet[Number(number % 58n)] + text
  return '1'.repeat(bytes.findIndex((byte) => byte !== 0)) + text
}

for await (const name of createInterface({ input: process.stdin })) {
  let failure = null
  try {
    await scenarios.get(name)()
  } catch (error) {
    failure = String(error.stack ?? error)
  }
  process.stdout.write(`${JSON.stringify(failure)}\n`)
}
