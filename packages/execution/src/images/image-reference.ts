import { ImageError } from "./image-error.ts";

/** Where an image is fetched from. */
export interface ImageReference {
  /** Its full name, as `docker.io/library/alpine:3`. */
  readonly name: string;
  /** Base of the registry's API. */
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
 * Reads the name of an image (OCI distribution specification): `alpine` is `docker.io/library/alpine:latest`. A registry on this
 * machine's loopback is spoken to without TLS, every other one with it. Throws an {@link ImageError}.
 */
export function parseImageReference(text: string): ImageReference {
  const problem = (what: string): ImageError =>
    new ImageError("Invalid", `${JSON.stringify(text)} is no name of an image: ${what}`);
  const slash = text.indexOf("/");
  const first = slash < 0 ? "" : text.slice(0, slash);
  const hasHost = first === "localhost" || /[.:]/.test(first);
  // Docker Hub was once called so.
  const host = !hasHost || first === "index.docker.io" ? "docker.io" : first;
  const rest = hasHost ? text.slice(slash + 1) : text;
  const at = rest.indexOf("@");
  const tagged = at < 0 ? rest : rest.slice(0, at);
  const colon = tagged.indexOf(":");
  const path = colon < 0 ? tagged : tagged.slice(0, colon);
  const tag = colon < 0 ? "latest" : tagged.slice(colon + 1);
  const version = at < 0 ? tag : rest.slice(at + 1);
  const repository = host === "docker.io" && !path.includes("/") ? `library/${path}` : path;
  if (!hostPattern.test(host)) throw problem(`the registry ${JSON.stringify(host)} is no host`);
  if (!repositoryPattern.test(repository))
    throw problem(`the repository ${JSON.stringify(path)} has characters that it may not have`);
  if (!versionPattern.test(version)) throw problem(`${JSON.stringify(version)} is no tag and no sha256 digest`);
  const scheme = loopback.test(host) ? "http" : "https";
  const server = host === "docker.io" ? "registry-1.docker.io" : host;
  return {
    name: `${host}/${repository}${version.includes(":") ? "@" : ":"}${version}`,
    url: `${scheme}://${server}/v2/${repository}`,
    repository,
    version,
  };
}
