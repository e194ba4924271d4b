/** What a request proves its identity with. */
export interface Credentials {
  /** A bearer token. */
  readonly token?: string;
  readonly basic?: { readonly username: string; readonly password: string };
  /** PEM. */
  readonly clientCertificate?: string;
  /** PEM. */
  readonly clientKey?: string;
}

/** Where credentials come from that change over time. `get` is asked before every request and caches by itself. */
export interface CredentialSource {
  get(signal?: AbortSignal): Promise<Credentials>;
  /** Told when the server refused what `get` gave (401): the next `get` brings something fresh. */
  invalidate?(): void;
}

/** The `authorization` header of these credentials, if they have one. */
export function authorizationOf(credentials: Credentials): string | undefined {
  if (credentials.token !== undefined && credentials.token !== "") return `Bearer ${credentials.token}`;
  if (credentials.basic === undefined) return undefined;
  return `Basic ${Buffer.from(`${credentials.basic.username}:${credentials.basic.password}`).toString("base64")}`;
}
