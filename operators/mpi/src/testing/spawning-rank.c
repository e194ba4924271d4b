/* Starts two more ranks of itself with MPI_Comm_spawn, and adds up what they send. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
  MPI_Comm parent, children;
  int rank, sum = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_get_parent(&parent);
  if (parent == MPI_COMM_NULL) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
    MPI_Reduce(NULL, &sum, 1, MPI_INT, MPI_SUM, rank == 0 ? MPI_ROOT : MPI_PROC_NULL, children);
    if (rank == 0) printf("sum of the spawned ranks: %d\n", sum);
    MPI_Comm_disconnect(&children);
  } else {
    MPI_Comm_rank(parent, &rank);
    rank += 1;
    MPI_Reduce(&rank, NULL, 1, MPI_INT, MPI_SUM, 0, parent);
    MPI_Comm_disconnect(&parent);
  }
  MPI_Finalize();
  return 0;
}
