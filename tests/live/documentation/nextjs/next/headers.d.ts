interface CookieOptions {
  path?: string
  httpOnly?: boolean
  secure?: boolean
  sameSite?: 'lax' | 'strict' | 'none'
  maxAge?: number
}

export interface Cookies {
  getAll(): { name: string; value: string }[]
  set(name: string, value: string, options?: CookieOptions): unknown
  delete(name: string): unknown
}

export function cookies(): Promise<Cookies>
