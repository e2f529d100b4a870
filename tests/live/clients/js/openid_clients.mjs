// Signs a user in with openid-client and with oidc-client-ts, which both know the issuer and a registered client only.
// Each line of the output is JSON: {"open": URL} for the user's browser, whose final URL is read from the input, and at
// the end {"result": …}. A device is connected by the same browser. ISSUER is the URL of the service; CLIENTS is JSON: name → client_id and client_secret.

import assert from 'node:assert/strict'
import readline from 'node:readline'

import { InMemoryWebStorage, OidcClient, WebStorageStateStore } from 'oidc-client-ts'
import * as openid from 'openid-client'

const { CLIENTS, ISSUER, REDIRECT_URI } = process.env
const issuer = new URL(ISSUER)
const clients = JSON.parse(CLIENTS)
const insecure = { execute: [openid.allowInsecureRequests] }
const answers = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]()

async function browse(url) {
  console.log(JSON.stringify({ open: String(url) }))
  return new URL((await answers.next()).value)
}

// Authorization code with PKCE, userinfo, refresh: the checks are those of the library.
async function signIn(config, parameters = {}) {
  const verifier = openid.randomPKCECodeVerifier()
  const [state, nonce] = [openid.randomState(), openid.randomNonce()]
  const url = openid.buildAuthorizationUrl(config, {
    redirect_uri: REDIRECT_URI,
    scope: 'openid email profile',
    code_challenge: await openid.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
    state,
    nonce,
    ...parameters,
  })
  const tokens = await openid.authorizationCodeGrant(config, await browse(url), {
    pkceCodeVerifier: verifier,
    expectedState: state,
    expectedNonce: nonce,
    idTokenExpected: true,
    ...(parameters.max_age && { maxAge: Number(parameters.max_age) }),
  })
  const user = await openid.fetchUserInfo(config, tokens.access_token, tokens.claims().sub)
  const refreshed = await openid.refreshTokenGrant(config, tokens.refresh_token)
  assert.notEqual(refreshed.refresh_token, tokens.refresh_token)
  return { email: user.email, verified: user.email_verified, name: user.name }
}

async function discover(name, authentication) {
  const { client_id: id, client_secret: secret } = clients[name]
  return openid.discovery(issuer, id, undefined, authentication(secret), insecure)
}

async function errorOf(promise) {
  return promise.then(
    () => 'none',
    (error) => error.error ?? error.cause?.error ?? String(error),
  )
}

// A client with a key: registers itself, pushes its request, and asks for the state of its token.
async function withAssertions() {
  const { privateKey, publicKey } = await crypto.subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-256' }, true, ['sign', 'verify'])
  const jwk = { ...(await crypto.subtle.exportKey('jwk', publicKey)), kid: 'k1', alg: 'ES256', use: 'sig', ext: undefined, key_ops: undefined }
  const config = await openid.dynamicClientRegistration(
    issuer,
    { redirect_uris: [REDIRECT_URI], token_endpoint_auth_method: 'private_key_jwt', jwks: { keys: [jwk] } },
    openid.PrivateKeyJwt({ key: privateKey, kid: 'k1' }),
    insecure,
  )
  const verifier = openid.randomPKCECodeVerifier()
  const url = await openid.buildAuthorizationUrlWithPAR(config, {
    redirect_uri: REDIRECT_URI,
    scope: 'openid email',
    code_challenge: await openid.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
  })
  assert.deepEqual([...url.searchParams.keys()].sort(), ['client_id', 'request_uri'])
  const tokens = await openid.authorizationCodeGrant(config, await browse(url), { pkceCodeVerifier: verifier })
  const { active, sub } = await openid.tokenIntrospection(config, tokens.access_token)
  await openid.tokenRevocation(config, tokens.refresh_token)
  return { active, sub, revoked: (await openid.tokenIntrospection(config, tokens.access_token)).active }
}

async function withDevice() {
  const config = await discover('device', openid.None)
  const device = await openid.initiateDeviceAuthorization(config, { scope: 'openid email' })
  await browse(device.verification_uri_complete)
  const tokens = await openid.pollDeviceAuthorizationGrant(config, { ...device, interval: 0 })
  return (await openid.fetchUserInfo(config, tokens.access_token, tokens.claims().sub)).email
}

// A service without a user calls the API that it names.
async function withClientCredentials() {
  const config = await discover('service', openid.ClientSecretBasic)
  const tokens = await openid.clientCredentialsGrant(config, { resource: 'urn:example:orders' })
  const claims = JSON.parse(Buffer.from(tokens.access_token.split('.')[1], 'base64url'))
  return claims.aud
}

async function withOidcClientTs() {
  const store = () => new WebStorageStateStore({ store: new InMemoryWebStorage() })
  const client = new OidcClient({
    authority: ISSUER,
    client_id: clients.public.client_id,
    redirect_uri: REDIRECT_URI,
    scope: 'openid email',
    loadUserInfo: true,
    stateStore: store(),
  })
  const { url } = await client.createSigninRequest({ state: { page: '/basket' }, nonce: 'n-1' })
  const response = await client.processSigninResponse(String(await browse(url)))
  assert.deepEqual(response.userState, { page: '/basket' })
  const refreshed = await client.useRefreshToken({
    state: { ...response, data: response.userState, profile: response.profile },
    redirect_uri: REDIRECT_URI,
  })
  assert.ok(refreshed.access_token)
  return { email: response.profile.email, verified: response.profile.email_verified }
}

const basic = await discover('basic', openid.ClientSecretBasic)
const registered = await openid.dynamicClientRegistration(
  issuer,
  { client_name: 'Registers itself', redirect_uris: [REDIRECT_URI], token_endpoint_auth_method: 'none' },
  openid.None(),
  insecure,
)
const result = {
  basic: await signIn(basic, { max_age: '3600' }),
  post: await signIn(await discover('post', openid.ClientSecretPost)),
  public: await signIn(await discover('public', openid.None)),
  dynamic: await signIn(registered),
  silent: await signIn(basic, { prompt: 'none' }),
  refused: await errorOf(signIn(basic, { scope: 'openid unknown' })),
  assertion: await withAssertions(),
  device: await withDevice(),
  service: await withClientCredentials(),
  oidcClientTs: await withOidcClientTs(),
}
console.log(JSON.stringify({ result }))
process.exit(0)
