import { ImageError } from "./image-error.ts";

/** A parsed image name. */
export interface ImageReference {
  /** Full name, such as `docker.io/library/alpine:3`. */
  readonly name: string;
  /** Base URL of the repository in the registry's API. */
  readonly url: string;
  readonly repository: string;
  /** Tag or digest. */
  readonly version: string;
}

const hostPattern = /^(?:localhost|[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?)(?::\d{1,5})?$/i;
const repositoryPattern = /^[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:\/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*$/;
const versionPattern = /^(?:[\w][-\w.]{0,127}|sha256:[0-9a-f]{64})$/;
const loopback = /^(?:localhost|127(?:\.\d{1,3}){3})(?::\d+)?$/;

/**
 * Parses an image name (OCI distribution specification): `alpine` is `docker.io/library/alpine:latest`. Registries on loopback are
 * accessed without TLS, all others with TLS. Throws an {@link ImageError}.
 */
export function parseImageReference(text: string): ImageReference {
  const problem = (what: string): ImageError =>
    new ImageError("Invalid", `${JSON.stringify(text)} is not a valid image name: ${what}`);
  const slash = text.indexOf("/");
  const first = slash < 0 ? "" : text.slice(0, slash);
  const hasHost = first === "localhost" || /[.:]/.test(first);
  // The former name of Docker Hub.
  const host = !hasHost || first === "index.docker.io" ? "docker.io" : first;
  const rest = hasHost ? text.slice(slash + 1) : text;
  const at = rest.indexOf("@");
  const tagged = at < 0 ? rest : rest.slice(0, at);
  const colon = tagged.indexOf(":");
  const path = colon < 0 ? tagged : tagged.slice(0, colon);
  const tag = colon < 0 ? "latest" : tagged.slice(colon + 1);
  const version = at < 0 ? tag : rest.slice(at + 1);
  const repository = host === "docker.io" && !path.includes("/") ? `library/${path}` : path;
  if (!hostPattern.test(host)) throw problem(`registry ${JSON.stringify(host)} is not a valid host`);
  if (!repositoryPattern.test(repository)) throw problem(`repository ${JSON.stringify(path)} has invalid characters`);
  if (!versionPattern.test(version)) throw problem(`${JSON.stringify(version)} is neither a tag nor a sha256 digest`);
  const scheme = loopback.test(host) ? "http" : "https";
  const server = host === "docker.io" ? "registry-1.docker.io" : host;
  return {
    name: `${host}/${repository}${version.includes(":") ? "@" : ":"}${version}`,
    url: `${scheme}://${server}/v2/${repository}`,
    repository,
    version,
  };
}
