import type { IncomingMessage } from "node:http";
import type { DeepReadonly } from "@keelson/api-machinery";
import type { ResourceAttributes } from "@keelson/api-machinery/kinds";
import { type AuthenticatedUser, type ClusterIdentities, ReviewLimitError } from "@keelson/controller/access";
import type { Cache } from "@keelson/controller";
import { group } from "../api/names.ts";
import { Sandbox } from "../api/sandbox.ts";
import { bearerTokenOf, hasToken } from "../bearer-token.ts";
import { callRules } from "../fastpath/access/call-rules.ts";
import { SandboxPorts } from "@keelson/sandbox/protocol";
import { signaturesOf } from "./proxied-headers.ts";
import { ProxyError } from "./proxy-error.ts";
import { portOfHost, takeSignature } from "./proxy-url.ts";
import type { SignedPort, UrlSigner } from "./url-signer.ts";

/** Options of {@link ProxyAccess}. */
export interface ProxyAccessOptions {
  /** Sandboxes are reached at `PORT-ID.` and this domain. */
  readonly domain: string;
  /** Whether clients use TLS, here or at a gateway before the proxy. */
  readonly isSecure: boolean;
  readonly signer: Pick<UrlSigner, "verify">;
  readonly cache: Cache;
  /** The token that grants every call; undefined: none. */
  readonly staticToken: string | undefined;
  /** Users of the cluster; undefined: not accepted, because the proxy does not serve TLS. */
  readonly identities: Pick<ClusterIdentities, "authenticate" | "isAllowed"> | undefined;
}

/** A request that may be forwarded. */
export interface GrantedRequest extends SignedPort {
  readonly sandbox: DeepReadonly<Sandbox>;
  /** Path and query, without the signature. */
  readonly target: string;
  /** The signature in the URL, if there is one. */
  readonly signature: string | undefined;
  /** When access ends; undefined with a token. */
  readonly expiresAtMs: number | undefined;
  readonly hidesAuthorization: boolean;
}

/** What grants a request. */
type Grant =
  | { readonly kind: "url"; readonly signature: string; readonly expiresAtMs: number }
  | { readonly kind: "cookie"; readonly expiresAtMs: number }
  | { readonly kind: "token"; readonly user: AuthenticatedUser | "holder of the static token" };

/**
 * Authorizes the requests of a proxy: by a signature in the URL, by the cookie that it was exchanged for, or by a bearer token whose user
 * may forward ports. Which sandboxes exist is not revealed without one of them.
 */
export class ProxyAccess {
  readonly #options: ProxyAccessOptions;

  constructor(options: ProxyAccessOptions) {
    this.#options = options;
  }

  /** **Errors**: `ProxyError`. */
  async authorize(request: IncomingMessage): Promise<GrantedRequest> {
    const { url = "", headers } = request;
    const port = portOfHost(headers.host, this.#options.domain);
    // Of several, a gateway may have used another one.
    if (hostsOf(request) > 1) throw new ProxyError(400, "host: must be sent once");
    if (port === undefined) throw new ProxyError(421, `host: must be PORT-ID.${this.#options.domain}`);
    if (!url.startsWith("/")) throw new ProxyError(400, "the request target must be a path");
    const { target, signature } = takeSignature(url);
    const grant = await this.#grant(port, signature, request);
    const sandbox = this.#options.cache.list(Sandbox, { index: ["sandboxID", port.sandboxId] })[0];
    if (grant.kind === "token") await this.#requirePermission(grant.user, sandbox);
    if (sandbox === undefined) throw new ProxyError(404, `sandbox ${port.sandboxId} not found; a restart changes the id`);
    requireOpen(sandbox, port.port);
    const { staticToken } = this.#options;
    const isOwnToken = staticToken !== undefined && hasToken(headers.authorization, staticToken);
    return {
      ...{ ...port, sandbox, target },
      signature: grant.kind === "url" ? grant.signature : undefined,
      expiresAtMs: grant.kind === "token" ? undefined : grant.expiresAtMs,
      hidesAuthorization: grant.kind === "token" || isOwnToken,
    };
  }

  async #grant(port: SignedPort, signature: string | undefined, request: IncomingMessage): Promise<Grant> {
    const { signer, isSecure, staticToken, identities } = this.#options;
    const { authorization, cookie } = request.headers;
    if (signature !== undefined) {
      const expiresAtMs = signer.verify(port, signature);
      if (expiresAtMs === undefined) throw new ProxyError(403, "the URL's signature is not valid, or has expired");
      return { kind: "url", signature, expiresAtMs };
    }
    const expiries = signaturesOf(cookie, isSecure).flatMap((each) => signer.verify(port, each) ?? []);
    if (expiries.length > 0) {
      requireSameOrigin(request, isSecure);
      return { kind: "cookie", expiresAtMs: Math.max(...expiries) };
    }
    if (staticToken !== undefined && hasToken(authorization, staticToken))
      return { kind: "token", user: "holder of the static token" };
    const token = bearerTokenOf(authorization);
    const user = token === undefined ? undefined : await reviewed(() => Promise.resolve(identities?.authenticate(token)));
    if (user === undefined)
      throw new ProxyError(
        401,
        "access requires a URL from `keelson sandbox url`, or the bearer token of a user who may forward ports",
      );
    return { kind: "token", user };
  }

  async #requirePermission(user: AuthenticatedUser | "holder of the static token", sandbox: DeepReadonly<Sandbox> | undefined) {
    if (user === "holder of the static token") return;
    const rule = callRules.get(SandboxPorts.method.connect);
    const { namespace = "", name = "" } = sandbox?.metadata ?? {};
    const attributes = { group, version: Sandbox.version, resource: Sandbox.plural, namespace, name, ...rule };
    // A user without the permission does not learn whether the sandbox exists.
    if (sandbox === undefined || !(await this.#isAllowed(user, attributes)))
      throw new ProxyError(403, `sandbox not found, or user "${user.username}" may not create sandboxes/portforward for it`);
  }

  #isAllowed(user: AuthenticatedUser, resourceAttributes: ResourceAttributes): Promise<boolean> {
    return reviewed(() => this.#options.identities?.isAllowed(user, { resourceAttributes }) ?? Promise.resolve(false));
  }
}

/**
 * A page of another sandbox is of the same site, so browsers send the cookie with its requests. Only top-level navigation may come from
 * elsewhere.
 */
function requireSameOrigin({ headers }: IncomingMessage, isSecure: boolean): void {
  const { origin, host = "" } = headers;
  const [site, mode, destination = "document"] = ["site", "mode", "dest"].map((name) => headers[`sec-fetch-${name}`]);
  const isForeignOrigin = origin !== undefined && !isHostOf(origin, host, isSecure);
  // Frames navigate too.
  const isNavigation = mode === "navigate" && destination === "document";
  const isForeignFetch = (site === "same-site" || site === "cross-site") && !isNavigation;
  if (isForeignOrigin || isForeignFetch) throw new ProxyError(403, "requests from other origins need their own signature");
}

/** Whether an origin has this host, and TLS if clients use it. `URL` omits the default port of the scheme. */
function isHostOf(origin: string, host: string, isSecure: boolean): boolean {
  const scheme = (isSecure ? /^https:/ : /^https?:/).exec(origin)?.[0];
  if (scheme === undefined || !URL.canParse(origin) || !URL.canParse(`${scheme}//${host}`)) return false;
  return new URL(origin).host === new URL(`${scheme}//${host}`).host;
}

const hostsOf = ({ rawHeaders }: IncomingMessage): number =>
  rawHeaders.filter((name, index) => index % 2 === 0 && name.toLowerCase() === "host").length;

/** **Errors**: `ProxyError` unless the sandbox runs and exposes the port. */
function requireOpen({ spec, status }: DeepReadonly<Sandbox>, port: number): void {
  if (!(spec.exposedPorts ?? []).includes(port)) throw new ProxyError(404, `port ${port} is not exposed`);
  if (status?.phase !== "Running") throw new ProxyError(503, `the sandbox is ${status?.phase ?? "Pending"}`);
}

async function reviewed<T>(review: () => Promise<T>): Promise<T> {
  try {
    return await review();
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    if (error instanceof ReviewLimitError) throw new ProxyError(429, message);
    throw new ProxyError(503, `could not review the credentials: ${message}`, { cause: error });
  }
}
