import { toJson } from "@bufbuild/protobuf";
import { type CommandContext, type CommandDefinition, formatResult, outputFlag, renderTable } from "@keelson/operator";
import { textFlag, UsageError } from "@keelson/operator/flags";
import { type VolumeInfo, VolumeInfoSchema } from "@keelson/sandbox/protocol";
import { type Connection, connectionFlags, runWith } from "./connection.ts";
import { age } from "./sandbox-age.ts";

const poolFlag = textFlag({
  name: "pool",
  value: "NAME",
  description: "pool whose sandboxes may use it (create)",
  default: "default-pool",
});
const sizeFlag = textFlag({
  name: "size",
  value: "SIZE",
  description: "its size, 16Mi to 1Ti (create: default 1Gi; resize: required, not below the current size)",
});

type Action = (connection: Connection, volumeName: string, context: CommandContext) => Promise<void>;

const createVolume: Action = async ({ volumes, namespace }, volumeName, context) => {
  const request = { volumeName, namespace, poolRef: poolFlag.read(context.flags), size: sizeFlag.read(context.flags) ?? "1Gi" };
  const created = await volumes.createVolume(request, { signal: context.signal });
  const { agentPod } = created;
  context.stdout.write(
    formatResult(
      context,
      toJson(VolumeInfoSchema, created),
      () =>
        `volume ${namespace}/${volumeName} created on agent ${agentPod}; mount it: keelson sandbox run --volume ${volumeName}:/data ...\n`,
    ),
  );
};

const resizeVolume: Action = async ({ volumes, namespace }, volumeName, context) => {
  const size = sizeFlag.read(context.flags);
  if (size === undefined) throw new UsageError(`--size is required: keelson sandbox volume resize ${volumeName} --size 2Gi`);
  const resized = await volumes.resizeVolume({ volumeName, namespace, size }, { signal: context.signal });
  const text = (): string => `volume ${namespace}/${volumeName} resized to ${size}\n`;
  context.stdout.write(formatResult(context, toJson(VolumeInfoSchema, resized), text));
};

const deleteVolume: Action = async ({ volumes, namespace }, volumeName, context) => {
  await volumes.deleteVolume({ volumeName, namespace }, { signal: context.signal });
  context.stdout.write(`volume ${namespace}/${volumeName} deleted\n`);
};

/** Both sizes while a volume grows. */
const sizeOf = ({ size, currentSize }: VolumeInfo): string =>
  currentSize === "" || currentSize === size ? size : `${currentSize} (${size})`;

const listVolumes: Action = async ({ volumes, namespace }, _, context) => {
  const { items } = await volumes.listVolumes({ namespace }, { signal: context.signal });
  const rows = items.map((item) => [
    ...[item.volumeName, sizeOf(item), item.phase, item.agentPod || "-", item.usedBy.join(",") || "-"],
    ...[age(item, context.clock.now()), item.message],
  ]);
  context.stdout.write(
    formatResult(
      context,
      items.map((item) => toJson(VolumeInfoSchema, item)),
      () =>
        rows.length === 0
          ? `No volumes in namespace ${namespace}; create one: keelson sandbox volume create NAME --size 1Gi\n`
          : renderTable([["NAME", "SIZE", "PHASE", "AGENT", "USED BY", "AGE", "MESSAGE"], ...rows]),
    ),
  );
};

const actions: ReadonlyMap<string, Action> = new Map([
  ["create", createVolume],
  ["list", listVolumes],
  ["resize", resizeVolume],
  ["delete", deleteVolume],
]);

/** `keelson sandbox volume create`, `list`, `resize` and `delete`. */
export const volumeCommand: CommandDefinition = {
  name: "volume",
  description: "create, list, resize or delete volumes, which outlive sandboxes: keelson sandbox volume create NAME --size 1Gi",
  args: ["ACTION", "[NAME]"],
  flags: [...connectionFlags, poolFlag, sizeFlag, outputFlag],
  run: (context) =>
    runWith(context, async (connection) => {
      const [name = "", volumeName = ""] = context.args;
      const action = actions.get(name);
      if (action === undefined) throw new UsageError(`ACTION: ${name} must be create, list, resize or delete`);
      if (name !== "list" && volumeName === "") throw new UsageError(`NAME is required: keelson sandbox volume ${name} NAME`);
      await action(connection, volumeName, context);
      return 0;
    }),
};
