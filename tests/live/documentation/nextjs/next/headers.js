import { AsyncLocalStorage } from 'node:async_hooks'

// The cookies of the request that runs.
export const current = new AsyncLocalStorage()
export const cookies = async () => current.getStore()
