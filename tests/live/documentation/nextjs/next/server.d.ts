import type { Cookies } from './headers'

export class NextRequest extends Request {
  readonly cookies: Pick<Cookies, 'getAll' | 'delete'> & { set(name: string, value: string): unknown }
  readonly nextUrl: URL
}

export class NextResponse extends Response {
  static next(init?: { request?: { headers?: Headers } }): NextResponse
  static redirect(url: string | URL): NextResponse
  readonly cookies: Cookies
}
