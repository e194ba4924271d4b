import type { PodImage } from "../runtimes/pod-images.ts";
import type { ContainerView, PodView } from "../pod/pod-view.ts";
import { configError } from "./container-error.ts";

/** Whether a container's user is root, also by default. */
export function isRootUser(user: string | undefined): boolean {
  return user === undefined || /^(0+|root)(:|$)/.test(user);
}

/**
 * The user that a container runs as, `UID[:GID]` or a name of the image; `undefined` means that of this process, whose id is `own`, or of an
 * image that names none.
 *
 * @throws ContainerError
 */
export function containerUser(
  pod: PodView,
  container: ContainerView,
  image: PodImage | undefined,
  own: number | undefined,
): string | undefined {
  return requestedUser(pod, container, image, own) ?? image?.user ?? (image !== undefined && "root" in image ? "0" : undefined);
}

function requestedUser(
  pod: PodView,
  container: ContainerView,
  image: PodImage | undefined,
  own: number | undefined,
): string | undefined {
  const uid = container.securityContext?.runAsUser ?? pod.spec.securityContext?.runAsUser;
  const gid = container.securityContext?.runAsGroup ?? pod.spec.securityContext?.runAsGroup;
  if ((container.securityContext?.runAsNonRoot ?? pod.spec.securityContext?.runAsNonRoot) === true) {
    const effective = String(uid ?? image?.user ?? (image === undefined ? own : 0));
    if (!/^\d+(:\d+)?$/.test(effective)) {
      throw configError(
        `container has runAsNonRoot and image has non-numeric user (${effective}), cannot verify user is non-root`,
      );
    }
    if (/^0+(:|$)/.test(effective)) {
      throw configError("container has runAsNonRoot and would run as root: set securityContext.runAsUser");
    }
  }
  // A container of an image gets what it asks for: the image may name another user, and the driver maps users without switching to them.
  if (uid === undefined || (uid === own && image === undefined)) return undefined;
  if (own !== 0 && image === undefined) {
    throw configError(
      `securityContext.runAsUser is ${uid}, but this node runs as user ${own} and cannot switch users: run it as root, or remove runAsUser`,
    );
  }
  return `${uid}:${gid ?? 0}`;
}
