/** The user to impersonate (`kubectl --as`). The caller needs the permission to do so. */
export interface Impersonation {
  readonly user: string;
  readonly uid?: string;
  readonly groups?: readonly string[];
  readonly extra?: Readonly<Record<string, readonly string[]>>;
}

/** The headers of an impersonated request. */
export function impersonationHeaders(impersonate: Impersonation): Record<string, string | string[]> {
  const headers: Record<string, string | string[]> = { "impersonate-user": impersonate.user };
  if (impersonate.uid !== undefined) headers["impersonate-uid"] = impersonate.uid;
  if (impersonate.groups?.length) headers["impersonate-group"] = [...impersonate.groups];
  for (const [key, values] of Object.entries(impersonate.extra ?? {})) {
    headers[`impersonate-extra-${encodeURIComponent(key.toLowerCase())}`] = [...values];
  }
  return headers;
}
