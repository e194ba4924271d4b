/** Credentials of a request. */
export interface Credentials {
  /** A bearer token. */
  readonly token?: string;
  readonly basic?: { readonly username: string; readonly password: string };
  /** PEM. */
  readonly clientCertificate?: string;
  /** PEM. */
  readonly clientKey?: string;
}

/** A source of credentials that change over time. `get` is called before every request and does its own caching. */
export interface CredentialSource {
  get(signal?: AbortSignal): Promise<Credentials>;
  /** Called when the server rejected the credentials (401): the next `get` must return new ones. */
  invalidate?(): void;
}

/** The `authorization` header for these credentials, if they need one. */
export function authorizationOf(credentials: Credentials): string | undefined {
  if (credentials.token !== undefined && credentials.token !== "") return `Bearer ${credentials.token}`;
  if (credentials.basic === undefined) return undefined;
  return `Basic ${Buffer.from(`${credentials.basic.username}:${credentials.basic.password}`).toString("base64")}`;
}
