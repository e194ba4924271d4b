import { existsSync } from "node:fs";
import { join } from "node:path";
import { ExecutionError } from "../driver.ts";
import { pathInRoot } from "../files/root-path.ts";
import type { LaunchRequest } from "../process/launcher.ts";
import { type CommandUser, readAccounts, resolveCommandUser } from "../program/users/command-user.ts";
import { hasPrivateUser } from "../program/users/program-user.ts";
import type { ContainerContext } from "./container-context.ts";
import { layersOf, overlayOf } from "./container-plan.ts";
import { idRangeSize } from "./id-range.ts";

/** Resolves the user of a command in the files of its container. **Errors**: `InvalidSpec`. */
export async function resolveContainerUser(
  context: Pick<ContainerContext, "api" | "snapshotter">,
  request: Pick<LaunchRequest, "spec" | "folder">,
  user: string,
): Promise<CommandUser> {
  const settings = await settingsFolders(context, request);
  const found = resolveCommandUser(
    user,
    readAccounts((name) => settings.map((pathOf) => pathOf(name)).find((path) => existsSync(path)) ?? ""),
  );
  if (hasPrivateUser(request.spec) && Math.max(found.uid, found.gid, ...found.groups) >= idRangeSize)
    throw new ExecutionError("InvalidSpec", `user: ids of ${user} must be less than ${idRangeSize}`);
  return found;
}

/** Where files of the `/etc` of a container can be, first match first. */
async function settingsFolders(
  { api, snapshotter }: Pick<ContainerContext, "api" | "snapshotter">,
  { spec, folder }: Pick<LaunchRequest, "spec" | "folder">,
): Promise<readonly ((name: string) => string)[]> {
  const { image, root } = spec.isolation ?? {};
  if (image === undefined && root === undefined) return [(name) => join(folder.path, "etc", name)];
  const mounts =
    root === undefined ? (await api.snapshots.mounts({ snapshotter, key: folder.tag })).mounts : overlayOf({ folder }, root);
  return layersOf(mounts).map((layer) => (name) => pathInRoot(layer, `/etc/${name}`));
}
