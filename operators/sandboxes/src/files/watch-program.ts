/*
 * The program that watches a folder of a sandbox with inotify(7), for which Node.js has no interface that distinguishes its events or reports
 * that some were dropped. Perl is part of every Debian; the program needs none of its modules.
 *
 * It runs as the sandbox's user with descriptor 3 open on the sandbox's root, and opens every folder beneath it with openat2(2). It exits when
 * its standard input is closed. The kernel's queue holds the events that it has not written yet, and reports if that is full.
 *
 * It writes records that end with NUL: a letter, `d` or `f` for a folder or another file, and the path relative to the watched folder.
 *
 * | record | meaning                                                                                |
 * |--------|----------------------------------------------------------------------------------------|
 * | `s`    | the watch is active                                                                    |
 * | `x2`   | it could not be started; number of the error                                           |
 * | `m`    | it could not be started: too many folders                                              |
 * | `o`    | events were dropped, or folders are not watched                                        |
 * | `c`…   | `c` created, `w` written, `r` removed, `n` renamed to another name, `a` attributes changed |
 */

import { constants } from "node:fs";

/** Numbers of system calls: openat2, close, inotify_init1, inotify_add_watch and inotify_rm_watch. */
const systemCalls: Partial<Record<NodeJS.Architecture, readonly number[]>> = {
  x64: [437, 3, 294, 254, 255],
  arm64: [437, 57, 26, 27, 28],
};

/** Maximum number of folders of one watch. */
export const maxWatchedFolders = 4096;

/** Name of the process, as `ps` shows it. */
export const watchProcessName = "keelson-sandbox-watch";

/** The command that watches `path`, an absolute path in the sandbox. Undefined if the processor is not supported. */
export function watchCommand(
  path: string,
  isRecursive: boolean,
  maxFolders: number = maxWatchedFolders,
): readonly [string, ...string[]] | undefined {
  const calls = systemCalls[process.arch];
  if (calls === undefined) return undefined;
  const numbers = [...calls, constants.O_DIRECTORY, maxFolders, isRecursive ? 1 : 0];
  return ["perl", "-e", source, ...numbers.map(String), path];
}

const source = String.raw`
$0 = "${watchProcessName}";
my ($openat2, $close, $init, $add, $remove, $directory, $max, $recursive) = map { $_ + 0 } splice @ARGV, 0, 8;
my $root_path = shift @ARGV;
my ($queue, $identity, %path, %watch, %below) = (syscall $init, 02000000);
# The signals of a sandbox that is being stopped are sent to every process in its cgroups. The watch ends with the sandbox.
$SIG{$_} = "IGNORE" for keys %SIG;
my %letters = (0x2, "w", 0x4, "a", 0x40, "n", 0x80, "c", 0x100, "c", 0x200, "r");
my $mask = 0x4 | 0x2 | 0x3c0 | 0xc00 | 0x05000000;
$| = 1;

sub record { print STDOUT $_[0], "\0" or exit 1 }
sub fail { record("x" . ($! + 0)); exit 1 }

# A directory beneath descriptor $at. O_PATH needs no permission on the directory itself. 11: a component was renamed in the meantime.
sub folder {
  my ($at, $name, $resolve) = @_;
  my ($how, $fd) = pack "Q3", 012000000 | $directory, 0, $resolve;
  for (1 .. 64) { $fd = syscall $openat2, $at + 0, "$name", $how, 24; last if $fd >= 0 || $! != 11 }
  $fd;
}

# The watched directory. 0x12: in the root, without links of /proc. -1 if it is another one by now.
sub base {
  my $fd = folder(3, $root_path, 0x12);
  return $fd if $fd < 0;
  my $found = join ":", (stat "/proc/self/fd/$fd")[0, 1];
  $identity = $found unless defined $identity;
  return $fd if $found eq $identity;
  syscall $close, $fd;
  -1;
}

# Watches the directory at $first and, if requested, those below it. With $announce they are reported once they are watched, together with their
# entries, which may be older than the watch. Returns 0 if some are not watched.
sub tree {
  my ($first, $announce) = @_;
  my ($all, $error, @open) = (1, 0, $first);
  my $start = base();
  if ($start < 0) { record("cd$first") if $announce; return 0 }
  while (defined(my $name = shift @open)) {
    my $fd = $name eq "" ? $start : folder($start, $name, 0xc);
    my $has_room = keys %path < $max;
    my $new = $fd >= 0 && $has_room ? syscall $add, $queue, "/proc/self/fd/$fd", $mask : -1;
    # 13: the user may not read this folder. It is left out, unless it is the watched one. Others were removed, or are links by now.
    if ($fd >= 0 && $new < 0 && !($has_room && $! == 13 && $name ne "")) { ($all, $error) = (0, $has_room ? $! + 0 : 0) }
    record("cd$name") if $announce;
    if ($new >= 0) {
      detach($path{$new}) if defined $path{$new};
      ($path{$new}, $watch{$name}) = ($name, $new);
      $below{above($name)}{$name} = 1 if $name ne "";
      push @open, entries($fd, $name, $announce, $max - keys(%path) - @open) if $recursive;
    }
    syscall $close, $fd if $fd >= 0 && $fd != $start;
    last unless $all;
  }
  syscall $close, $start;
  $! = $error;
  $all;
}

# The directories in a directory, with one beyond $room if there are more. With $announce its other entries are reported.
sub entries {
  my ($fd, $name, $announce, $room) = @_;
  opendir my $list, "/proc/self/fd/$fd" or return;
  my @found;
  while (@found <= $room && defined(my $entry = readdir $list)) {
    next if $entry eq "." || $entry eq "..";
    my $whole = $name eq "" ? $entry : "$name/$entry";
    my $is_folder = lstat "/proc/self/fd/$fd/$entry" && -d _;
    if ($is_folder) { push @found, $whole }
    elsif ($announce) { record("cf$whole") }
  }
  @found;
}

sub above { my ($parent) = $_[0] =~ m{^(.*)/}s; defined $parent ? $parent : "" }

# Removes the path of a watch. %below has the watched directories in each directory, so that the time for a path does not depend on the others.
sub detach {
  my ($name) = @_;
  my $parent = above($name);
  if (my $siblings = $below{$parent}) {
    delete $siblings->{$name};
    delete $below{$parent} unless %$siblings;
  }
  delete $watch{$name};
}

# Stops the watches of a directory that has another path by now.
sub forget {
  my @open = $_[0];
  while (defined(my $name = pop @open)) {
    push @open, keys %{$below{$name}} if $below{$name};
    my $number = detach($name);
    next unless defined $number;
    syscall $remove, $queue, $number + 0;
    delete $path{$number};
  }
}

sub event {
  my ($number, $bits, $name) = @_;
  if ($bits & 0x4000) { record("o"); tree("", 0); return }
  my $folder = $path{$number};
  return unless defined $folder;
  if ($bits & 0x8000) {
    exit 0 if $folder eq "";
    detach(delete $path{$number});
    return;
  }
  if ($name eq "") {
    return if $folder ne "";
    record("ad.") if $bits & 0x4;
    return unless $bits & 0x2c00;
    record($bits & 0x800 ? "nd." : "rd.");
    exit 0;
  }
  my $whole = $folder eq "" ? $name : "$folder/$name";
  my $letter = $letters{$bits & 0x3c6};
  return unless defined $letter;
  my $is_folder = $bits & 0x40000000;
  if ($recursive && $is_folder && $letter eq "c") { record("o") unless tree($whole, 1); return }
  record($letter . ($is_folder ? "d" : "f") . $whole);
  forget($whole) if $recursive && $is_folder && $letter eq "n";
}

fail() if $queue < 0;
my $opened = base();
fail() if $opened < 0;
syscall $close, $opened;
if (!tree("", 0)) { fail() if $!; record("m"); exit 1 }
record("s");
open QUEUE, "<&=$queue" or fail();
my $wait = "";
vec($wait, 0, 1) = vec($wait, $queue, 1) = 1;
while (1) {
  next if select(my $ready = $wait, undef, undef, undef) < 0;
  exit 0 if vec $ready, 0, 1;
  sysread QUEUE, my $buffer, 65536 or exit 1;
  while (length $buffer) {
    my ($number, $bits, undef, $size) = unpack "lL3", $buffer;
    event($number, $bits, unpack "Z*", substr $buffer, 16, $size);
    substr $buffer, 0, 16 + $size, "";
  }
}
`;
