// An OpenID provider with Keycloak's paths that accepts any user name.
// PORT is the listening port; CLIENTS is a JSON list of client metadata; TLS_FILE (key and certificate) enables HTTPS.

import { readFileSync } from 'node:fs'
import http from 'node:http'
import https from 'node:https'

import Provider from 'oidc-provider'

const { CLIENTS, PORT, TLS_FILE } = process.env
const scheme = TLS_FILE ? 'https' : 'http'
const provider = new Provider(`${scheme}://127.0.0.1:${PORT}`, {
  clients: JSON.parse(CLIENTS),
  routes: {
    authorization: '/protocol/openid-connect/auth',
    token: '/protocol/openid-connect/token',
    userinfo: '/protocol/openid-connect/userinfo',
  },
  claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name'] },
  conformIdTokenClaims: false,
  cookies: { keys: ['for tests alone'] },
  findAccount: (_, accountId) => ({
    accountId,
    claims: () => ({ sub: accountId, email: `${accountId}@example.com`, email_verified: true, name: accountId }),
  }),
  pkce: { required: () => false },
})
const handle = provider.callback()
const pem = TLS_FILE && readFileSync(TLS_FILE)
const server = TLS_FILE ? https.createServer({ key: pem, cert: pem }, handle) : http.createServer(handle)
server.listen(Number(PORT), '127.0.0.1')
