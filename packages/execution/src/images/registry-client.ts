import { ImageError } from "./image-error.ts";
import { maxJsonBytes, parseImageJson } from "./image-manifest.ts";
import type { ImageReference } from "./image-reference.ts";

/** An account at a registry. */
export interface RegistryCredentials {
  readonly username: string;
  readonly password: string;
}

/** Sends a GET request to one repository. Throws an {@link ImageError} for every status other than 2xx. */
export type RegistryClient = (
  path: string,
  request?: {
    readonly accept?: string;
    /** Offset of the first byte; registries may still send everything (status 200 instead of 206). */
    readonly from?: number;
  },
) => Promise<Response>;

/** Parses a `WWW-Authenticate: Bearer` header (RFC 6750). */
function challengeOf(header: string | null): Readonly<Record<string, string>> | undefined {
  if (header === null || !/^bearer /i.test(header)) return undefined;
  return Object.fromEntries([...header.matchAll(/(\w+)="([^"]*)"/g)].map(([, name = "", value = ""]) => [name, value]));
}

/**
 * Creates a client of one repository. It obtains the token that the registry requires, with the configured account or anonymously, and
 * renews it when it expires.
 */
export function createRegistryClient(
  reference: ImageReference,
  options: {
    readonly fetch: typeof fetch;
    readonly credentials?: (registry: string) => RegistryCredentials | undefined;
    readonly signal?: AbortSignal;
  },
): RegistryClient {
  let authorization: string | undefined;
  const account = options.credentials?.(reference.name.slice(0, reference.name.indexOf("/")));
  const basic = account && `Basic ${Buffer.from(`${account.username}:${account.password}`).toString("base64")}`;
  const send = async (url: string, headers: Readonly<Record<string, string>>): Promise<Response> => {
    try {
      return await options.fetch(url, { headers, ...(options.signal !== undefined && { signal: options.signal }) });
    } catch (error) {
      options.signal?.throwIfAborted();
      const cause = error instanceof Error && error.cause instanceof Error ? error.cause.message : String(error);
      throw new ImageError("Unavailable", `${new URL(url).host} is unreachable: ${cause}`, { cause: error });
    }
  };
  /** Obtains the credentials that the registry requests; false if there are none to try. */
  const authorize = async (response: Response): Promise<boolean> => {
    const header = response.headers.get("www-authenticate");
    if (response.status !== 401) return false;
    if (header !== null && /^basic\b/i.test(header)) {
      const isNew = basic !== undefined && authorization !== basic;
      authorization = basic;
      return isNew;
    }
    const challenge = challengeOf(header);
    if (challenge?.realm === undefined || !URL.canParse(challenge.realm)) return false;
    const url = new URL(challenge.realm);
    // The token endpoint must use TLS if the registry does, and gets a password only over TLS or if it is the registry itself.
    if (url.protocol !== "https:" && !reference.url.startsWith("http:")) return false;
    const isTrusted = url.protocol === "https:" || url.host === new URL(reference.url).host;
    for (const name of ["service", "scope"]) if (challenge[name] !== undefined) url.searchParams.set(name, challenge[name]);
    const granted = await send(url.href, basic !== undefined && isTrusted ? { authorization: basic } : {});
    const body = granted.ok ? parseImageJson(await readBody(granted), "the registry's token") : {};
    if (!granted.ok) await granted.body?.cancel();
    const token = body.token ?? body.access_token;
    authorization = typeof token === "string" ? `Bearer ${token}` : undefined;
    return authorization !== undefined;
  };
  return async (path, { accept, from } = {}) => {
    const request = (): Promise<Response> =>
      send(`${reference.url}/${path}`, {
        ...(accept !== undefined && { accept }),
        ...(from !== undefined && { range: `bytes=${from}-` }),
        ...(authorization !== undefined && { authorization }),
      });
    let response = await request();
    if (await authorize(response)) {
      await response.body?.cancel();
      response = await request();
    }
    if (response.ok) return response;
    await response.body?.cancel();
    throw pullError(response.status, reference.name, account);
  };
}

function pullError(status: number, name: string, account: RegistryCredentials | undefined): ImageError {
  const refused = `the registry denies ${account === undefined ? "anonymous access; configure an account" : `access to ${account.username}`}`;
  if (status === 401 || status === 403) return new ImageError("Unavailable", `cannot pull ${name}: ${refused}`);
  const why = status === 404 ? "image not found" : `the registry responded with status ${status}`;
  return new ImageError("Unavailable", `cannot pull ${name}: ${why}`);
}

/** Reads a response body of limited size. Throws an {@link ImageError} if it is larger. */
export async function readBody(response: Response): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response.body ?? []) {
    size += (chunk as Uint8Array).length;
    if (size > maxJsonBytes) throw new ImageError("TooLarge", `a response of the registry exceeds ${maxJsonBytes} bytes`);
    chunks.push(chunk as Uint8Array);
  }
  return Buffer.concat(chunks);
}
