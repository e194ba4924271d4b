import type { TLSSocket } from "node:tls";
import { createContextKey, createContextValues, type ContextValues } from "@connectrpc/connect";
import type { AuthenticatedUser } from "@keelson/controller/access";

/** What is known about the connection of a call. */
export interface CallerConnection {
  readonly isEncrypted: boolean;
  /** The user of a client certificate of the cluster's authority, with the end of its validity in milliseconds since the epoch. */
  readonly certificate: () => { readonly user: AuthenticatedUser; readonly notAfterMs: number } | undefined;
  /** Called with the name of the caller once it has authenticated. */
  readonly onAuthenticated: (caller: string) => void;
}

/** Key of the {@link CallerConnection} in a call's context. */
export const callerConnectionKey = createContextKey<CallerConnection>(
  { isEncrypted: false, certificate: () => undefined, onAuthenticated: () => {} },
  { description: "connection of the caller" },
);

/** The context of a call that arrived on this socket. */
export function contextOf(socket: unknown, onAuthenticated: CallerConnection["onAuthenticated"]): ContextValues {
  const isEncrypted = isTlsSocket(socket);
  const certificate = (): ReturnType<CallerConnection["certificate"]> => (isEncrypted ? certificateUser(socket) : undefined);
  return createContextValues().set(callerConnectionKey, { isEncrypted, certificate, onAuthenticated });
}

// Sockets of HTTP/2 are proxies, which have the properties of the socket.
const isTlsSocket = (socket: unknown): socket is TLSSocket =>
  typeof socket === "object" && socket !== null && "encrypted" in socket && socket.encrypted === true;

function certificateUser(socket: TLSSocket): ReturnType<CallerConnection["certificate"]> {
  if (!socket.authorized) return undefined;
  const { subject, valid_to: validTo } = socket.getPeerCertificate();
  // Two common names would be ambiguous.
  const username: unknown = subject?.CN;
  if (typeof username !== "string" || username === "") return undefined;
  const organizations: unknown = subject.O;
  const groups = [organizations].flat().filter((name) => typeof name === "string");
  return { user: { username, groups: [...groups, "system:authenticated"] }, notAfterMs: Date.parse(validTo) };
}
